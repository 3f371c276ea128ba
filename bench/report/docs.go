package report

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// The marks between which the docs have a table of the bench.
const (
	fullMark      = "<!-- bench: table -->"
	summaryMark   = "<!-- bench: summary -->"
	migrationMark = "<!-- bench: migration -->"
	attackMark    = "<!-- bench: attack -->"
	endMark       = "<!-- bench: end -->"
)

// Migration is the table of a change of controllers.
type Migration struct {
	Conditions string
	Table      [][]string
}

// Attacks is the table of attacks on the HTTPS ports.
type Attacks struct {
	Conditions string
	Table      [][]string
}

// page is text that belongs between marks, by the first of them.
type page interface{ blocks() map[string]string }

func (r *Report) blocks() map[string]string {
	return map[string]string{
		fullMark:    r.conditions() + "; the median, with the least and the most.\n\n" + markdown(r.table(full)),
		summaryMark: "Side by side, by [one command](bench/README.md): " + r.conditions() + "; medians.\n\n" + markdown(r.table(summary)),
	}
}

func (m *Migration) blocks() map[string]string {
	return map[string]string{migrationMark: m.Conditions + ".\n\n" + markdown(m.Table)}
}

func (a *Attacks) blocks() map[string]string {
	return map[string]string{attackMark: a.Conditions + ".\n\n" + markdown(a.Table)}
}

// CheckMarks is an error if WriteInto will find no place in the file: better before a long run than after it.
func CheckMarks(path string, written page) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if _, err := replaced(string(text), written); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// WriteInto replaces what stands between the marks of a file.
func WriteInto(path string, written page) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	after, err := replaced(string(text), written)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(after), 0o644)
}

func replaced(text string, written page) (string, error) {
	blocks := written.blocks()
	found := false
	for mark, block := range blocks {
		before, rest, begins := strings.Cut(text, mark)
		if !begins {
			continue
		}
		_, after, ends := strings.Cut(rest, endMark)
		if !ends {
			return "", fmt.Errorf("there is %s, but no %s after it", mark, endMark)
		}
		text, found = before+mark+"\n"+block+endMark+after, true
	}
	if !found {
		return "", fmt.Errorf("there is none of the marks %s", strings.Join(slices.Sorted(maps.Keys(blocks)), ", "))
	}
	return text, nil
}

// conditions under which the figures were measured.
func (r *Report) conditions() string {
	return fmt.Sprintf("%s, Kubernetes %s, upstream's library %s, %d processors, which API server and etcd share; %d nodes, "+
		"%d Services, %s a call to the cloud. Rounds: %s",
		r.Date, r.Kubernetes, r.Upstream, r.Processors, r.Nodes, r.Services, r.Latency, r.rounds())
}

// rounds of all, and of each contestant that ran in fewer.
func (r *Report) rounds() string {
	text := strconv.Itoa(r.Rounds)
	for _, one := range r.Contestants {
		if ran := len(one.Measured["cold.seconds"]); ran < r.Rounds {
			text += fmt.Sprintf(" (%s: %d)", one.Title, ran)
		}
	}
	return text
}

func markdown(table [][]string) string {
	var text strings.Builder
	for place, row := range table {
		text.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if place == 0 {
			text.WriteString("|" + strings.Repeat("---|", len(row)) + "\n")
		}
	}
	return text.String()
}
