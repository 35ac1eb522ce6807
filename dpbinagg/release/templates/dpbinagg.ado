*! Posts a released regression as e(b) and e(V), so that test, lincom, nlcom and esttab work on it:
*!     adopath ++ "folder"
*!     dpbinagg using "folder"
*! Standard errors, tests and intervals include the noise that was added for privacy.
program define dpbinagg, eclass
    version 14
    syntax [using/] [, Level(cilevel)]
    if `"`using'"' == "" local using "."
    tempname b V value
    preserve

    quietly import delimited using `"`using'/coefficients.csv"', varnames(1) case(preserve) stringcols(_all) encoding("utf-8") bindquotes(strict) clear
    local k = _N
    local names
    local omitted 0
    matrix `b' = J(1, `k', 0)
    forvalues i = 1/`k' {
        scalar `value' = real(estimate[`i'])
        local name = short_name[`i']
        if missing(`value') {
            local name o.`name'
            local omitted 1
        }
        else matrix `b'[1, `i'] = `value'
        local names `names' `name'
    }

    quietly import delimited using `"`using'/vcov.csv"', varnames(nonames) stringcols(_all) encoding("utf-8") bindquotes(strict) clear
    matrix `V' = J(`k', `k', 0)
    forvalues i = 1/`k' {
        forvalues j = 1/`k' {
            local row = `i' + 1
            local column = `j' + 1
            scalar `value' = real(v`column'[`row'])
            if !missing(`value') matrix `V'[`i', `j'] = `value'
        }
    }

    quietly import delimited using `"`using'/model.csv"', varnames(1) case(preserve) stringcols(_all) encoding("utf-8") bindquotes(strict) clear
    foreach fact in nobs df_resid df_model r_squared sigma mu epsilon delta {
        local `fact' = real(`fact'[1])
    }
    foreach fact in response formula estimator cov_type neighbours for_publication {
        local `fact' = `fact'[1]
    }
    restore

    matrix `V' = (`V' + `V'')/2
    matrix colnames `b' = `names'
    matrix colnames `V' = `names'
    matrix rownames `V' = `names'
    ereturn post `b' `V'
    ereturn scalar N = `nobs'
    if !missing(`df_resid') ereturn scalar df_r = `df_resid'
    ereturn scalar df_m = `df_model'
    ereturn scalar r2 = `r_squared'
    ereturn scalar rmse = `sigma'
    ereturn scalar mu = `mu'
    ereturn scalar epsilon = `epsilon'
    ereturn scalar delta = `delta'
    ereturn local depvar `"`response'"'
    ereturn local vcetype "Private"
    ereturn local estimator `"`estimator'"'
    ereturn local neighbours `"`neighbours'"'
    ereturn local formula `"`formula'"'
    ereturn local title "Differentially private regression"
    ereturn local cmd "dpbinagg"

    display as text _newline `"Differentially private regression: `formula'"'
    display as text "Records (noisy) = " as result %12.0fc e(N) as text "   mu = " as result %6.0g e(mu) as text "   epsilon = " as result %6.0g e(epsilon) as text " at delta = " as result %6.0g e(delta)
    ereturn display, level(`level')
    if `omitted' display as text "Coefficients shown as omitted are not identified by the release."
    if "`for_publication'" != "TRUE" display as error "NOT FOR PUBLICATION: the noise came from a seeded generator."
end
