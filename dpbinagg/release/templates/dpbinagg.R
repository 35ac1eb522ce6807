# Reads a released regression in R, without packages:
#
#   source("dpbinagg.R")
#   m <- read_release(".")
#   coef(m); vcov(m); confint(m); summary(m)
#
# tidy(m) and glance(m) have the columns of broom, so modelsummary(m) makes tables of it. Standard
# errors, tests and intervals include the noise that was added for privacy.

read_release <- function(folder = ".") {
  read <- function(name) {
    path <- file.path(folder, name)
    if (!file.exists(path)) {
      stop("'", folder, "' has no ", name, "; give the folder of the release", call. = FALSE)
    }
    read.csv(path, check.names = FALSE, encoding = "UTF-8", stringsAsFactors = FALSE)
  }
  table <- read("coefficients.csv")
  covariance <- as.matrix(read("vcov.csv")[, -1, drop = FALSE])
  mode(covariance) <- "numeric"
  dimnames(covariance) <- list(table$term, table$term)
  structure(
    list(
      coefficients = setNames(as.numeric(table$estimate), table$term),
      covariance = covariance,
      model = as.list(read("model.csv"))
    ),
    class = "dp_release"
  )
}

.dp_df <- function(object) {
  df <- suppressWarnings(as.numeric(object$model$df_resid))
  if (length(df) != 1 || is.na(df)) Inf else df
}

.dp_table <- function(object) {
  estimate <- object$coefficients
  error <- sqrt(diag(object$covariance))
  statistic <- estimate / error
  p <- 2 * pt(abs(statistic), .dp_df(object), lower.tail = FALSE)
  table <- cbind(estimate, error, statistic, p)
  letter <- if (is.finite(.dp_df(object))) "t" else "z"
  columns <- c("Estimate", "Std. Error", paste(letter, "value"), paste0("Pr(>|", letter, "|)"))
  dimnames(table) <- list(names(estimate), columns)
  table
}

.dp_methods <- list(
  coef = function(object, ...) object$coefficients,
  vcov = function(object, ...) object$covariance,
  nobs = function(object, ...) as.numeric(object$model$nobs),
  df.residual = function(object, ...) .dp_df(object),
  confint = function(object, parm, level = 0.95, ...) {
    error <- sqrt(diag(object$covariance))
    tail <- (1 - level) / 2
    limits <- object$coefficients + outer(error, qt(c(tail, 1 - tail), .dp_df(object)))
    percent <- paste(format(100 * c(tail, 1 - tail), trim = TRUE, digits = 3), "%")
    dimnames(limits) <- list(names(object$coefficients), percent)
    if (missing(parm)) limits else limits[parm, , drop = FALSE]
  },
  summary = function(object, ...) {
    made <- list(coefficients = .dp_table(object), model = object$model)
    structure(made, class = "summary.dp_release")
  },
  print = function(x, ...) {
    cat("Differentially private regression:", x$model$formula, "\n\n")
    print(x$coefficients, ...)
    invisible(x)
  },
  tidy = function(x, conf.int = FALSE, conf.level = 0.95, ...) {
    table <- .dp_table(x)
    made <- data.frame(
      term = rownames(table), estimate = table[, 1], std.error = table[, 2],
      statistic = table[, 3], p.value = table[, 4], row.names = NULL, stringsAsFactors = FALSE
    )
    if (conf.int) {
      limits <- confint(x, level = conf.level)
      made$conf.low <- unname(limits[, 1])
      made$conf.high <- unname(limits[, 2])
    }
    made
  },
  glance = function(x, ...) {
    m <- x$model
    data.frame(
      r.squared = as.numeric(m$r_squared), adj.r.squared = as.numeric(m$adj_r_squared),
      sigma = as.numeric(m$sigma), statistic = as.numeric(m$statistic),
      p.value = as.numeric(m$p_value), df = as.numeric(m$df_model),
      AIC = as.numeric(m$aic), BIC = as.numeric(m$bic),
      df.residual = .dp_df(x), nobs = as.numeric(m$nobs), mu = as.numeric(m$mu),
      epsilon = as.numeric(m$epsilon), delta = as.numeric(m$delta), stringsAsFactors = FALSE
    )
  }
)

.dp_print_summary <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  m <- x$model
  cat("Differentially private regression:", m$formula, "\n\n")
  printCoefmat(x$coefficients, digits = digits, na.print = "not identified")
  cat(sprintf("\nEstimator: %s; records (noisy): %s\n", m$estimator, format(round(m$nobs), big.mark = ",")))
  if (!is.na(m$r_squared)) cat(sprintf("Multiple R-squared: %.3f (noisy)\n", m$r_squared))
  cat(sprintf(
    "Privacy: mu = %.4g (%s), which implies epsilon = %.3g at delta = %g\n",
    m$mu, m$neighbours, m$epsilon, m$delta
  ))
  if (!isTRUE(as.logical(m$for_publication))) {
    cat("NOT FOR PUBLICATION: the noise came from a seeded generator.\n")
  }
  invisible(x)
}

# The mean over synthetic copies is the estimate, their covariance its covariance.
combine_copies <- function(fits) {
  each <- do.call(rbind, lapply(fits, coef))
  list(coefficients = colMeans(each), covariance = stats::cov(each))
}

# Other packages' functions if they are there; without them, functions of the same names.
tidy <- function(x, ...) {
  if (requireNamespace("generics", quietly = TRUE)) generics::tidy(x, ...) else UseMethod("tidy")
}
glance <- function(x, ...) {
  if (requireNamespace("generics", quietly = TRUE)) generics::glance(x, ...) else UseMethod("glance")
}

local({
  # Methods are registered where their functions live, so that other packages find them.
  for (name in names(.dp_methods)) {
    method <- .dp_methods[[name]]
    assign(paste0(name, ".dp_release"), method, envir = globalenv())
    home <- if (name %in% c("tidy", "glance")) "generics" else if (name %in% c("print", "summary")) "base" else "stats"
    if (home == "base") {
      registerS3method(name, "dp_release", method, envir = baseenv())
    } else if (requireNamespace(home, quietly = TRUE)) {
      registerS3method(name, "dp_release", method, envir = asNamespace(home))
    }
  }
  registerS3method("print", "summary.dp_release", .dp_print_summary, envir = baseenv())
})
