package console

// messageTexts are the texts of messages and single retries.
var messageTexts = texts{}

var messagePlurals = plurals{}
