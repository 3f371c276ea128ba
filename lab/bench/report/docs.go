// This file writes sections of the docs between their marks.

package report

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// endMark ends what the bench has written after another mark.
var endMark = Mark("end")

// Mark is the line of a page after which the bench writes.
func Mark(name string) string { return "<!-- bench: " + name + " -->" }

// Section is conditions and a table, as a page has them.
func Section(conditions string, table [][]string) string {
	var text strings.Builder
	text.WriteString(conditions + ".\n\n")
	for index, row := range table {
		text.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if index == 0 {
			text.WriteString("|" + strings.Repeat("---|", len(row)) + "\n")
		}
	}
	return text.String()
}

// CheckMarks is an error if WriteInto will find no place in the file: better before a long run than after it.
func CheckMarks(path string, marks ...string) error {
	sections := map[string]string{}
	for _, mark := range marks {
		sections[mark] = ""
	}
	_, err := edited(path, sections)
	return err
}

// WriteInto replaces the text after each mark of a file that the result has a section for.
func WriteInto(path string, result Result) error {
	text, err := edited(path, result.Sections())
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

func edited(path string, sections map[string]string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	after, err := replace(string(text), sections)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return after, nil
}

func replace(text string, sections map[string]string) (string, error) {
	isMarked := false
	for mark, section := range sections {
		before, rest, begins := strings.Cut(text, mark)
		if !begins {
			continue
		}
		_, after, ends := strings.Cut(rest, endMark)
		if !ends {
			return "", fmt.Errorf("there is %s, but no %s after it", mark, endMark)
		}
		text, isMarked = before+mark+"\n"+section+endMark+after, true
	}
	if !isMarked {
		return "", fmt.Errorf("there is none of the marks %s", strings.Join(slices.Sorted(maps.Keys(sections)), ", "))
	}
	return text, nil
}
