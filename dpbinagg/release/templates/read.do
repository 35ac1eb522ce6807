${note}import delimited using "$table", varnames(nonames) $kinds asdouble encoding("utf-8") bindquotes(strict) clear
quietly drop in 1
rename ($old) ($new)
