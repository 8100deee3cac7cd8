package console

// overviewTexts are the texts of the overview and of topics.
var overviewTexts = texts{}

var overviewPlurals = plurals{}
