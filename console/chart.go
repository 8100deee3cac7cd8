package console

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// chart is a picture of numbers over time: columns that stack the numbers of several series, and marks of events.
// The template "chart" draws the picture, its key, and a table of the same numbers. The picture fills its place, but its texts
// keep their size, so that people can read them on a phone too. Therefore x positions are percentages.
type chart struct {
	// ID is unique in its page.
	ID string
	// Title names the numbers and their time.
	Title string
	From  time.Time
	Step  time.Duration
	// Series are stacked from below, each with a number for each step.
	Series []line
	Marks  []mark
}

// line is one series of a chart. Classes 1 to 6 are the colours of series; class 0 is for the sum of all other series.
type line struct {
	Name   string
	Class  int
	Points []int64
}

// mark is an event, such as a decision about a cause. Kind is the name of an icon.
type mark struct {
	At         time.Time
	Kind, Text string
}

// column is one step of a chart.
type column struct {
	From, To time.Time
	// X and Width are the place of the column, BarX and BarWidth the place of its bar.
	X, Width, BarX, BarWidth string
	Parts                    []part
	// Sum is the sum over all series.
	Sum int64
}

// part is the number of one series in a column.
type part struct {
	line

	Value     int64
	Y, Height string
}

// placedMark is a mark with its number and its place.
type placedMark struct {
	mark

	Number int
	X      string
	Y      int
}

// gridLine is a horizontal line at a round number.
type gridLine struct {
	Value int64
	Y     string
}

const (
	// chartHeight is the height of the plot in pixels.
	chartHeight = 150
	// chartTop is the free space above the highest number, and the height of a row of marks, in pixels.
	chartTop = 20
	// markRows is the number of rows for marks that would cover each other.
	markRows   = 3
	chartTicks = 5
	// leastHeight, in pixels, keeps a small number visible beside large numbers.
	leastHeight = 1.5
)

// Columns returns the steps with their numbers.
func (c chart) Columns() []column {
	top, scale, count := c.Top(), c.scale(), c.steps()
	columns := make([]column, count)
	width := 100 / float64(max(count, 1))
	for i := range columns {
		x := float64(i) * width
		one := column{
			From: c.From.Add(time.Duration(i) * c.Step), To: c.From.Add(time.Duration(i+1) * c.Step),
			X: percent(x), Width: percent(width), BarX: percent(x + width*0.1), BarWidth: percent(width * 0.8),
		}
		for _, series := range c.Series {
			var value int64
			if i < len(series.Points) {
				value = max(series.Points[i], 0)
			}
			bottom := float64(top) + chartHeight*(1-float64(one.Sum)/float64(scale))
			height := chartHeight * float64(value) / float64(scale)
			if value > 0 {
				height = max(height, leastHeight)
			}
			one.Parts = append(one.Parts, part{line: series, Value: value, Y: pixels(bottom - height), Height: pixels(height)})
			one.Sum += value
		}
		columns[i] = one
	}
	return columns
}

// Sum is the sum over all steps and series.
func (c chart) Sum() int64 {
	var sum int64
	for _, value := range c.sums() {
		sum += value
	}
	return sum
}

// Peak is the step with the highest number.
func (c chart) Peak() column {
	return slices.MaxFunc(append(c.Columns(), column{}), func(a, b column) int { return cmp.Compare(a.Sum, b.Sum) })
}

// PlacedMarks are the marks within the time of the chart, the oldest first.
func (c chart) PlacedMarks() []placedMark {
	var placed []placedMark
	marks := slices.SortedFunc(slices.Values(c.Marks), func(a, b mark) int { return a.At.Compare(b.At) })
	var ends [markRows]float64
	for i := range ends {
		ends[i] = -100
	}
	for _, m := range marks {
		if m.At.Before(c.From) || m.At.After(c.To()) {
			continue
		}
		x := 100 * float64(m.At.Sub(c.From)) / float64(c.To().Sub(c.From))
		row := 0
		for row < markRows-1 && x-ends[row] < 6 {
			row++
		}
		ends[row] = x
		placed = append(placed, placedMark{mark: m, Number: len(placed) + 1, X: percent(min(max(x, 1.5), 98.5)), Y: chartTop/2 + row*chartTop})
	}
	return placed
}

// Grid returns the lines at the upper edge and at its half, if the half is a whole number.
func (c chart) Grid() []gridLine {
	scale, top := c.scale(), float64(c.Top())
	lines := []gridLine{{scale, pixels(top)}}
	if scale%2 == 0 {
		lines = append(lines, gridLine{scale / 2, pixels(top + chartHeight/2)})
	}
	return lines
}

// Ticks are the times below the picture, at equal distances.
func (c chart) Ticks() []time.Time {
	ticks := make([]time.Time, chartTicks)
	for i := range ticks {
		ticks[i] = c.From.Add(c.To().Sub(c.From) * time.Duration(i) / (chartTicks - 1))
	}
	return ticks
}

// IsLong tells whether the chart spans days, so that its ticks are dates.
func (c chart) IsLong() bool { return c.To().Sub(c.From) > 49*time.Hour }

// IsShort tells whether the chart spans minutes, so that its ticks have seconds.
func (c chart) IsShort() bool { return c.To().Sub(c.From) < 10*time.Minute }

// To is the end of the last step.
func (c chart) To() time.Time { return c.From.Add(time.Duration(c.steps()) * c.Step) }

// Top is the y of the upper edge.
func (c chart) Top() int {
	if len(c.Marks) > 0 {
		return chartTop * markRows
	}
	return chartTop
}

// Base is the y of zero.
func (c chart) Base() int { return c.Top() + chartHeight }

func (c chart) steps() int {
	count := 0
	for _, series := range c.Series {
		count = max(count, len(series.Points))
	}
	return count
}

func (c chart) sums() []int64 {
	sums := make([]int64, c.steps())
	for _, series := range c.Series {
		for i, value := range series.Points {
			sums[i] += max(value, 0)
		}
	}
	return sums
}

// scale is the number at the upper edge: 1, 2, 4, 6 or 8 times a power of ten.
func (c chart) scale() int64 {
	highest := slices.Max(append(c.sums(), 1))
	for power := int64(1); ; power *= 10 {
		for _, factor := range []int64{1, 2, 4, 6, 8} {
			if factor*power >= highest || power >= 1e17 {
				return factor * power
			}
		}
	}
}

func percent(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) + "%" }

func pixels(y float64) string { return strconv.FormatFloat(y, 'f', 1, 64) }
