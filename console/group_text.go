package console

// groupTexts are the texts of causes.
var groupTexts = texts{}

var groupPlurals = plurals{}
