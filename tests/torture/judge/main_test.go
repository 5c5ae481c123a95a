package main

import (
	"strings"
	"testing"
)

// Lines of a history, with times and validities in milliseconds, separated by semicolons.
func TestJudge(t *testing.T) {
	for _, row := range []struct {
		name   string
		status int
		lines  string
	}{
		{"one after the other", 0, "90 a start 1 r 10 -;100 a held 1 r 100 -;150 a release 1 r 0 -;140 b start 1 r 50 -;151 b held 1 r 100 -"},
		{"two at once", 1, "90 a start 1 r 10 -;100 a held 1 r 100 -;90 b start 1 r 90 -;150 b held 1 r 100 -;170 a release 1 r 0 -"},
		{"a later promise counts", 1, "90 a start 1 r 10 -;100 a held 1 r 100 -;110 a valid 1 r 500 -;190 b start 1 r 90 -;250 b held 1 r 100 -"},
		{"the longest promise counts", 1, "90 a start 1 r 10 -;100 a held 1 r 500 -;110 a valid 1 r 10 -;190 b start 1 r 90 -;250 b held 1 r 100 -"},
		{"a promise after another's", 1, "90 a start 1 r 10 -;100 a held 1 r 20 -;121 b start 1 r 9 -;122 b held 1 r 20 -;143 a valid 1 r 20 -;170 c start 1 r 9 -"},
		{"a promise ends", 0, "90 a start 1 r 10 -;100 a held 1 r 100 -;190 b start 1 r 90 -;201 b held 1 r 100 -"},
		{"a reported loss ends it", 0, "90 a start 1 r 10 -;100 a held 1 r 100 -;120 a lost 1 r 0 gone;121 b start 1 r 9 -;130 b held 1 r 100 -"},
		{"other resources do not meet", 0, "90 a start 1 r 10 -;100 a held 1 r 100 -;120 b start 1 s 9 -;121 b held 1 s 50 -"},
		{"readers are together", 0, "90 a start 1 r 10 shared;100 a held 1 r 100 -;90 b start 1 r 90 shared;150 b held 1 r 100 -;170 a valid 1 r 9 -"},
		{"a writer beside readers", 1, "90 a start 1 r 10 shared;100 a held 1 r 100 -;101 b start 1 r 9 shared;105 b held 1 r 5 -;111 c start 1 r 9 -;120 c held 1 r 9 -"},
		{"a reader beside a writer", 1, "90 a start 1 r 10 -;100 a held 1 r 100 -;101 b start 1 r 9 shared;105 b held 1 r 5 -"},
		{"a writer after readers", 0, "90 a start 1 r 10 shared;100 a held 1 r 100 -;101 b start 1 r 9 shared;105 b held 1 r 5 -;111 c start 1 r 99 -;201 c held 1 r 9 -"},
		{"growing tokens", 0, "90 a start 1 r 10 -;100 a held 1 r 5 -;100 a fence 1 r 7 -;110 b start 1 r 10 -;120 b held 1 r 5 -;121 b fence 1 r 9 -"},
		{"a smaller token", 1, "90 a start 1 r 10 -;100 a held 1 r 5 -;100 a fence 1 r 9 -;110 b start 1 r 10 -;120 b held 1 r 5 -;121 b fence 1 r 7 -"},
		{"a token twice", 1, "90 a start 1 r 10 -;100 a held 1 r 5 -;100 a fence 1 r 9 -;95 b start 1 r 10 -;120 b held 1 r 5 -;121 b fence 1 r 9 -"},
		{"acquires that overlap have no order", 0, "90 a start 1 r 10 -;100 a held 1 r 5 -;100 a fence 1 r 9 -;95 b start 1 r 10 -;120 b held 1 r 5 -;121 b fence 1 r 7 -"},
	} {
		holds := record{}
		for _, line := range strings.Split(row.lines, ";") {
			words := strings.Fields(line)
			words[0] += "000000" // ns
			if words[2] == "held" || words[2] == "valid" {
				words[5] += "000" // us
			}
			if err := holds.line(strings.Join(words, " ")); err != nil {
				t.Fatalf("%s: %s: %v", row.name, line, err)
			}
		}
		if status := holds.judge(); status != row.status {
			t.Errorf("%s: status %d, not %d", row.name, status, row.status)
		}
	}
}
