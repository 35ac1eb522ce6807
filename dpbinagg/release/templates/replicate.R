# Reproduces the released coefficients from synthetic records: Rscript replicate.R
# Standard errors printed by lm() know nothing of the privacy noise; the honest ones are read by
# source("dpbinagg.R"); summary(read_release("."))
$read
fit <- lm($response ~ $right, data = d, tol = 1e-12)
released <- read.csv("coefficients.csv", check.names = FALSE, encoding = "UTF-8")
result <- data.frame(term = released$$term, lm = unname(coef(fit)), released = released$$estimate)
print(result, digits = 10)
known <- !is.na(result$$released)
gap <- abs(result$$lm - result$$released)
stopifnot(isTRUE(all((gap <= $share * released$$std_error + 1e-9 * abs(result$$released))[known])))
