package config

// suggestion completes the message about an unknown name.
func suggestion(name string, known []string) string {
	if near := nearest(name, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// nearest returns the candidate with the fewest changes to text, or "" if none is
// close.
func nearest(text string, candidates []string) string {
	best, distance := "", len(text)/3+1
	for _, candidate := range candidates {
		if d := editDistance(text, candidate); d <= distance && (d < distance || best == "") {
			best, distance = candidate, d
		}
	}
	return best
}

// editDistance is the number of bytes that must be inserted, removed or changed.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
