// This file holds the runbooks against the alerts and the code.

package main

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// sources have all names in the log, in events and in metrics; those of RPCs are in the contract.
var sources = []string{"controller", "proto"}

var (
	searches = regexp.MustCompile(`grep (?:-\w+ )?'([^']+)'`)
	reasons  = regexp.MustCompile(`reason=(\w+)`)
	paths    = regexp.MustCompile(`ask '?/[\w/-]*?([\w-]+)['?` + "`]")
	// Long texts are broken with a backslash.
	broken = regexp.MustCompile(`\\\n\s*`)
)

// runbooks checks that each alert has a section and each section an alert, and that what the page's commands look for
// exists: lines of the log and reasons of events in the code, and paths among those documented.
func (c *checker) runbooks(names []string, page, endpoints string) {
	var sections []string
	for line := range strings.Lines(page) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			sections = append(sections, strings.TrimSpace(title))
		}
	}
	for _, name := range names {
		if !slices.Contains(sections, name) {
			c.problem(runbooks, "no section %s", name)
		}
	}
	for _, section := range sections {
		if !slices.Contains(names, section) {
			c.problem(runbooks, "%s is no alert", section)
		}
	}
	for _, match := range searches.FindAllStringSubmatch(page, -1) {
		if line, err := regexp.Compile(match[1]); err != nil || !line.MatchString(c.code) {
			c.problem(runbooks, "nothing in the controller logs '%s'", match[1])
		}
	}
	for _, match := range reasons.FindAllStringSubmatch(page, -1) {
		if !strings.Contains(c.code, `"`+match[1]+`"`) {
			c.problem(runbooks, "no event of the controller has the reason %s", match[1])
		}
	}
	for _, match := range paths.FindAllStringSubmatch(page, -1) {
		if !regexp.MustCompile("[`/]" + regexp.QuoteMeta(match[1]) + "`").MatchString(endpoints) {
			c.problem(runbooks, "%s has no path or check %s", metrics, match[1])
		}
	}
}

// code is all of the controller but its tests.
func code() string {
	var all strings.Builder
	for _, folder := range sources {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && slices.Contains([]string{".proto", ".rs"}, filepath.Ext(path)) && !strings.Contains(path, "tests") {
				all.Write(read(path))
			}
			return err
		})
		if err != nil {
			fail("%v; run this in the root of the repository", err)
		}
	}
	return broken.ReplaceAllString(all.String(), "")
}
