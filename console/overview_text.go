package console

// overviewTexts are the texts of the overview and of topics.
var overviewTexts = texts{
	// The chart, which all parts share.
	"%d in all.": "合計 %d 件。", "Most from %s: %d.": "最多は %s から: %d 件。", "The numbers as a table": "数値を表で見る", "From": "開始", "All": "すべて",
}

var overviewPlurals = plurals{}
