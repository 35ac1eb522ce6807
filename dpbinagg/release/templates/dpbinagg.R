# Reads a released regression in R, without packages:
#
#   source("dpbinagg.R")
#   m <- read_release(".")
#   coef(m); vcov(m); confint(m); summary(m)
#
# tidy(m) and glance(m) have the columns of broom, so modelsummary(m) makes tables of it. Standard
# errors, tests and intervals include the noise that was added for privacy.

.dpbinagg <- local({
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
    made <- list(
      coefficients = stats::setNames(as.numeric(table$estimate), table$term),
      covariance = covariance,
      model = as.list(read("model.csv"))
    )
    structure(made, class = "dp_release")
  }

  degrees <- function(m) {
    df <- suppressWarnings(as.numeric(m$model$df_resid))
    if (length(df) != 1 || is.na(df)) Inf else df
  }

  tests <- function(m) {
    estimate <- m$coefficients
    error <- sqrt(diag(m$covariance))
    p <- 2 * stats::pt(abs(estimate / error), degrees(m), lower.tail = FALSE)
    letter <- if (is.finite(degrees(m))) "t" else "z"
    table <- cbind(estimate, error, estimate / error, p)
    columns <- c("Estimate", "Std. Error", paste(letter, "value"), paste0("Pr(>|", letter, "|)"))
    dimnames(table) <- list(names(estimate), columns)
    table
  }

  limits <- function(m, level) {
    tail <- (1 - level) / 2
    error <- sqrt(diag(m$covariance))
    made <- m$coefficients + outer(error, stats::qt(c(tail, 1 - tail), degrees(m)))
    percent <- paste(format(100 * c(tail, 1 - tail), trim = TRUE, digits = 3), "%")
    dimnames(made) <- list(names(m$coefficients), percent)
    made
  }

  title <- function(m) cat("Differentially private regression:", m$model$formula, "\n\n")

  print_summary <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
    m <- x$model
    title(x)
    stats::printCoefmat(x$coefficients, digits = digits, na.print = "not identified")
    records <- format(round(m$nobs), big.mark = ",")
    cat("\nEstimator: ", m$estimator, "; records (noisy): ", records, "\n", sep = "")
    if (!is.na(m$r_squared)) cat(sprintf("R-squared: %.3f (noisy)\n", m$r_squared))
    cat(sprintf(
      "Privacy: mu = %.4g (%s), which implies epsilon = %.3g at delta = %g\n",
      m$mu, m$neighbours, m$epsilon, m$delta
    ))
    if (!isTRUE(as.logical(m$for_publication))) {
      cat("NOT FOR PUBLICATION: the noise came from a seeded generator.\n")
    }
    invisible(x)
  }

  tidy <- function(x, conf.int = FALSE, conf.level = 0.95, ...) {
    table <- tests(x)
    made <- data.frame(
      term = rownames(table), estimate = table[, 1], std.error = table[, 2],
      statistic = table[, 3], p.value = table[, 4], row.names = NULL, stringsAsFactors = FALSE
    )
    if (conf.int) {
      interval <- limits(x, conf.level)
      made$conf.low <- unname(interval[, 1])
      made$conf.high <- unname(interval[, 2])
    }
    made
  }

  glance <- function(x, ...) {
    m <- x$model
    data.frame(
      r.squared = as.numeric(m$r_squared), adj.r.squared = as.numeric(m$adj_r_squared),
      sigma = as.numeric(m$sigma), statistic = as.numeric(m$statistic),
      p.value = as.numeric(m$p_value), df = as.numeric(m$df_model),
      AIC = as.numeric(m$aic), BIC = as.numeric(m$bic), df.residual = degrees(x),
      nobs = as.numeric(m$nobs), mu = as.numeric(m$mu), epsilon = as.numeric(m$epsilon),
      delta = as.numeric(m$delta)
    )
  }

  # Methods are registered where their functions live, so that other packages find them.
  register <- function(home, name, method, class = "dp_release") {
    if (requireNamespace(home, quietly = TRUE)) {
      place <- if (home == "base") baseenv() else asNamespace(home)
      registerS3method(name, class, method, envir = place)
    }
  }
  register("stats", "coef", function(object, ...) object$coefficients)
  register("stats", "vcov", function(object, ...) object$covariance)
  register("stats", "nobs", function(object, ...) as.numeric(object$model$nobs))
  register("stats", "df.residual", function(object, ...) degrees(object))
  register("stats", "confint", function(object, parm, level = 0.95, ...) {
    if (missing(parm)) limits(object, level) else limits(object, level)[parm, , drop = FALSE]
  })
  register("base", "print", function(x, ...) {
    title(x)
    print(x$coefficients, ...)
    invisible(x)
  })
  register("base", "summary", function(object, ...) {
    made <- list(coefficients = tests(object), model = object$model)
    structure(made, class = "summary.dp_release")
  })
  register("base", "print", print_summary, "summary.dp_release")
  register("generics", "tidy", tidy)
  register("generics", "glance", glance)

  # Other packages' functions if they are there, so that sourcing this file hides nothing.
  either <- function(name, method) {
    function(x, ...) {
      if (inherits(x, "dp_release")) return(method(x, ...))
      getExportedValue("generics", name)(x, ...)
    }
  }
  list(
    read_release = read_release,
    # The mean over synthetic copies is the estimate, their covariance its covariance. That is so
    # for the regression of this folder; for others that supports.json calls "known noise",
    # combine_copies(fits, exact = FALSE) adds what lm() prints: u + (1 + 1/m) b.
    combine_copies = function(fits, exact = TRUE) {
      each <- do.call(rbind, lapply(fits, stats::coef))
      found <- stats::cov(each)
      if (!exact) {
        within <- Reduce("+", lapply(fits, stats::vcov)) / length(fits)
        found <- within + (1 + 1 / length(fits)) * found
      }
      list(coefficients = colMeans(each), covariance = found)
    },
    tidy = either("tidy", tidy),
    glance = either("glance", glance)
  )
})

read_release <- .dpbinagg$read_release
combine_copies <- .dpbinagg$combine_copies
tidy <- .dpbinagg$tidy
glance <- .dpbinagg$glance
