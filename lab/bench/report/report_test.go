// These tests replace a section, and hold the spread.

package report

import (
	"strings"
	"testing"
)

func TestOnlyTheTextBetweenTheMarksIsReplaced(t *testing.T) {
	mark := Mark("summary")
	sections := map[string]string{mark: Section("conditions", [][]string{{"", "One"}, {"10 nodes", "1.50"}}), Mark("table"): ""}
	text := "before\n" + mark + "\n| stale |\n" + endMark + "\nafter " + endMark + "\n"
	once, err := replace(text, sections)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(once, "before\n") || !strings.HasSuffix(once, "\nafter "+endMark+"\n") ||
		strings.Contains(once, "stale") || !strings.Contains(once, "conditions.\n\n|  | One |\n|---|---|\n| 10 nodes | 1.50 |\n") {
		t.Error(once)
	}
	if twice, err := replace(once, sections); err != nil || twice != once {
		t.Error("writing it again changes it", err, twice)
	}
	for _, broken := range []string{"no marks", "before " + Mark("table") + " no end"} {
		if _, err := replace(broken, sections); err == nil {
			t.Errorf("%q was accepted", broken)
		}
	}
}

func TestMedianOfAnEvenNumberIsBetweenTheTwoInTheMiddle(t *testing.T) {
	if spread := spreadOf([]float64{4, 1, 3, 2}); spread != (Spread{1, 2.5, 4}) {
		t.Errorf("%+v", spread)
	}
}
