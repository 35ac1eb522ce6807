if (!requireNamespace("arrow", quietly = TRUE)) stop("install.packages(\"arrow\") to read $table")
d <- as.data.frame(arrow::read_parquet("$table"))
