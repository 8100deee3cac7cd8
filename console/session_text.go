package console

// sessionTexts are the texts of the ways of signing in.
var sessionTexts = texts{}

var sessionPlurals = plurals{}
