package config

// suggestion completes the error about an unknown name. It suggests the known name that needs the fewest changes.
func suggestion(name string, known []string) string {
	text, distance := "", len(name)/3+2 // a name that needs more changes was probably not meant
	for _, candidate := range known {
		if d := editDistance(name, candidate); d < distance {
			text, distance = "; did you mean "+candidate+"?", d
		}
	}
	return text
}

// editDistance is the number of bytes that must be inserted, removed or replaced.
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
