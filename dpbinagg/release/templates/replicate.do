* Reproduces the released coefficients from synthetic records: do replicate.do
* Standard errors printed by regress know nothing of the privacy noise; report those of coefficients.csv.
import delimited using "$table", varnames(1) case(preserve) asdouble encoding("utf-8")$words clear
$generate
regress dp_y $columns$constant
