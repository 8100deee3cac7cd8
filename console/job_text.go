package console

// jobTexts are the texts of jobs.
var jobTexts = texts{}

var jobPlurals = plurals{}
