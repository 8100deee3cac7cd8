package console

// planTexts are the texts of plans.
var planTexts = texts{}

var planPlurals = plurals{}
