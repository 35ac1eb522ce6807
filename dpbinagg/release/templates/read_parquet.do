* Stata reads no Parquet: make $csv first, by python replicate.py --csv
