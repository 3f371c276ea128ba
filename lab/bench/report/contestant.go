// This file has the figures of a contestant, and their spread.

package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Contestant is one way to run the controllers, with the figures of its rounds by the name of the measure.
type Contestant struct {
	ID       string               `json:"id"`
	Title    string               `json:"title"`
	Measured map[string][]float64 `json:"measured"`
}

// Add adds the figures of a round.
func (c *Contestant) Add(round map[string]float64) {
	if c.Measured == nil {
		c.Measured = map[string][]float64{}
	}
	for name, value := range round {
		c.Measured[name] = append(c.Measured[name], value)
	}
}

// Spread of a figure over the rounds.
type Spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

func spreadOf(values []float64) Spread {
	sorted := slices.Sorted(slices.Values(values))
	last := len(sorted) - 1
	return Spread{Min: sorted[0], Median: (sorted[last/2] + sorted[(last+1)/2]) / 2, Max: sorted[last]}
}

// Spreads of all figures, by contestant and measure.
func Spreads(contestants []*Contestant) map[string]map[string]Spread {
	spread := map[string]map[string]Spread{}
	for _, contestant := range contestants {
		spread[contestant.ID] = map[string]Spread{}
		for name, values := range contestant.Measured {
			spread[contestant.ID][name] = spreadOf(values)
		}
	}
	return spread
}

// Cell is a median, with the least and the most where they differ and are asked for; a dash without values.
func Cell(values []float64, withSpread bool) string {
	if len(values) == 0 {
		return "–"
	}
	spread := spreadOf(values)
	least, median, most := number(spread.Min), number(spread.Median), number(spread.Max)
	if !withSpread || least == most {
		return median
	}
	return fmt.Sprintf("%s (%s–%s)", median, least, most)
}

// number has as many digits as can be believed.
func number(value float64) string {
	switch {
	case value == math.Trunc(value) || value >= 100:
		return strconv.FormatFloat(value, 'f', 0, 64)
	case value >= 10:
		return strconv.FormatFloat(value, 'f', 1, 64)
	default:
		return strconv.FormatFloat(value, 'f', 2, 64)
	}
}
