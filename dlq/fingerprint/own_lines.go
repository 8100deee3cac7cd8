package fingerprint

import "strings"

// OwnLines returns the numbers of the lines of a stack trace that are frames of own code, or lines of source below such
// frames. The first line is 0. Nil means that no frame has a known form. Only the first 64 KiB are read.
func OwnLines(stack string) (own []int) {
	var isOwn bool // the last frame is own, and all lines since belong to that frame
	var depth int  // the indentation of the last frame
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
