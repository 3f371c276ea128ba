// This file has the outcomes of attacks and their table.

package attack

import (
	"fmt"

	"outrigger.dev/bench/report"
)

// mark of the table in SECURITY.md.
var mark = report.Mark("attack")

// outcome is what one controller shows of one attack.
type outcome struct {
	Attack     string  `json:"attack"`
	Controller string  `json:"controller"`
	IdleMiB    float64 `json:"idleMiB"`
	PeakMiB    float64 `json:"peakMiB"`
	Probes     tally   `json:"probes"`
	Scrapes    tally   `json:"scrapes"`
	Lines      int     `json:"logLines"`
	Seconds    float64 `json:"seconds"`
	Answers    int64   `json:"answers"`
	Refused    int64   `json:"refused"`
	Lookups    int     `json:"lookups"`
	Ended      bool    `json:"ended"`
}

// tally counts tries.
type tally struct {
	Failed int `json:"failed"`
	All    int `json:"all"`
}

// outcomes of all attacks are the result of a run.
type outcomes struct {
	conditions string
	all        []outcome
}

// Figures are the outcomes themselves.
func (o *outcomes) Figures() any { return o.all }

// Sections has the table.
func (o *outcomes) Sections() map[string]string {
	return map[string]string{mark: report.Section(o.conditions, o.Table())}
}

// Table has a row for each attack, the figures of upstream's controller before Outrigger's.
func (o *outcomes) Table() [][]string {
	table := [][]string{{
		"attack", "memory above idle, MiB: upstream", "Outrigger", "failed probes: upstream", "Outrigger",
		"log lines a second: upstream", "Outrigger",
	}}
	for _, step := range steps {
		row := []string{step.title, "–", "–", "–", "–", "–", "–"}
		ran := false
		for _, outcome := range o.all {
			for index, victim := range victims {
				if outcome.Attack == step.id && outcome.Controller == victim.title {
					ran = true
					row[1+index], row[3+index], row[5+index] = outcome.cells()
				}
			}
		}
		if ran {
			table = append(table, row)
		}
	}
	return table
}

func (o outcome) cells() (memory, probes, lines string) {
	memory = fmt.Sprintf("%.0f", o.PeakMiB-o.IdleMiB)
	if o.Ended {
		memory += ", then it ended"
	}
	probes = fmt.Sprintf("%d of %d", o.Probes.Failed, o.Probes.All)
	if o.Scrapes.All > 0 {
		probes += fmt.Sprintf("; scrapes %d of %d", o.Scrapes.Failed, o.Scrapes.All)
	}
	if o.Lookups > 0 {
		probes += fmt.Sprintf("; %.0f lookups a second", float64(o.Lookups)/o.Seconds)
	}
	return memory, probes, fmt.Sprintf("%.1f", float64(o.Lines)/o.Seconds)
}
