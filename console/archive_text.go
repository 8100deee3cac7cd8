package console

// archiveTexts are the texts of the archive and the audit.
var archiveTexts = texts{}

var archivePlurals = plurals{}
