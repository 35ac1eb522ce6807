# Reproduces the released coefficients from synthetic records: Rscript replicate.R
# Standard errors printed by lm() know nothing of the privacy noise; report those of coefficients.csv.
d <- read.csv("$table", check.names = FALSE, fileEncoding = "UTF-8", na.strings = character(0)$words)
fit <- lm($response ~ $right, data = d, tol = 1e-12)
released <- read.csv("coefficients.csv", check.names = FALSE)
result <- data.frame(term = released$$term, lm = unname(coef(fit)), released = released$$estimate)
print(result, digits = 10)
stopifnot(all(abs(result$$lm - result$$released) <= 1e-8 * pmax(1, abs(result$$released))))
