package fingerprint

import "strings"

// OwnLines are the lines of a stack trace that are frames of own code, or lines of source below such frames. They are
// counted from 0. Nil means that no frame has a known form. Only the first 64 KiB are read.
func OwnLines(stack string) (own []int) {
	var isOwn bool // of the last frame, if only lines that belong to it have followed
	var depth int  // its indentation
	number, previous := 0, ""
	for _, line := range lines(prefix(stack, maxStack)) {
		line = strings.TrimSuffix(line, "\r")
		body := strings.TrimLeft(line, " \t|+")
		indent := len(line) - len(body)
		switch f, isOwnFrame := formatOfLine(body, indent); {
		case f != nil:
			if own == nil {
				own = []int{}
			}
			isOwn, depth = isOwnFrame, indent
			if indent > 0 && isGoLocation(body) {
				isOwn = isOwnGo(goFunction(strings.TrimPrefix(previous, "created by ")), body)
				if isOwn {
					own = append(own, number-1)
				}
			}
		case indent <= depth:
			isOwn = false
		}
		if isOwn {
			own = append(own, number)
		}
		number, previous = number+1, body
	}
	return own
}
