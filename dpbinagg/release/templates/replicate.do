* Reproduces the released coefficients from synthetic records: do replicate.do
* Standard errors printed by regress know nothing of the privacy noise; the honest ones are posted by
* adopath ++ "."
* dpbinagg using "."
version 14
$read
${generate}regress dp_y $columns$constant
$checks
display as text "All coefficients are those of coefficients.csv."
