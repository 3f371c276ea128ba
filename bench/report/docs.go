package report

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// The marks between which the docs have a table of the bench.
const (
	fullMark    = "<!-- bench: table -->"
	summaryMark = "<!-- bench: summary -->"
	endMark     = "<!-- bench: end -->"
)

// CheckMarks is an error if WriteInto will find no place in the file: better before a long run than after it.
func CheckMarks(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if _, err := new(Report).replaced(string(text)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// WriteInto replaces what stands between the marks of a file.
func (r *Report) WriteInto(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	written, err := r.replaced(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(written), 0o644)
}

func (r *Report) replaced(text string) (string, error) {
	found := false
	for mark, block := range map[string]string{
		fullMark:    r.conditions() + "; the median, with the least and the most.\n\n" + markdown(r.table(full)),
		summaryMark: "Side by side, by [one command](bench/README.md): " + r.conditions() + "; medians.\n\n" + markdown(r.table(summary)),
	} {
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
		return "", fmt.Errorf("there is neither %s nor %s", fullMark, summaryMark)
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
