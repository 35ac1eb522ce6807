"""Which questions are asked, in what order, and with what share of the budget."""
