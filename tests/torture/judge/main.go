// Judges the record of a torture run or of simulated worlds (tests/torture/history.h) with a linearizability checker
// that others wrote and use, instead of this project's own (tests/torture/check.h). See
// scripts/judge.sh.
//
// For each resource it asks two questions:
//
//	lock     Do the holds have an order in which each begins after the one before has ended, except that shared ones
//	         may be together? A hold begins between the start of its acquire and the query that first promised it,
//	         is there at each query that promised it, and ends at its release, at the report of its loss or at the
//	         end of its promise, or any time later. A shared one begins as late and ends as early as it may: this
//	         leaves most time to others, and sets of readers have too many orders to try.
//	fencing  Do the tokens have an order in which each is larger than the one before? A token is given between the
//	         start of its acquire and its arrival.
//
// Usage: judge FILE...    exit status 0: yes; 1: no; 2: it cannot be said
package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const patience = 10 * time.Minute

type hold struct {
	name, resource          string
	shared                  bool
	started, held, promised int64 // 0: not yet
	ended                   int64 // release or report of the loss, 0: none
	token                   int64
	tokenAt                 int64
	queries                 []int64
}

// What happens to a resource. The lock's state is the name of the hold that it belongs to, "[name]", or the sorted
// names of shared ones, "(name)(name)"; "" for none.
type step struct {
	kind  string // begin, promise, end
	name  string
	token int64
}

func with(readers, name string) string {
	names := append(strings.SplitAfter(readers, ")"), name)
	sort.Strings(names)
	return strings.Join(names, "")
}

var lockModel = porcupine.Model{
	Init: func() interface{} { return "" },
	Step: func(state, input, _ interface{}) (bool, interface{}) {
		holder, asked := state.(string), input.(step)
		switch asked.kind {
		case "begin":
			return holder == "" || holder[0] == '(' && asked.name[0] == '(', with(holder, asked.name)
		case "promise":
			return strings.Contains(holder, asked.name), holder
		}
		return strings.Contains(holder, asked.name), strings.Replace(holder, asked.name, "", 1)
	},
}

var fencingModel = porcupine.Model{
	Init: func() interface{} { return int64(0) },
	Step: func(state, input, _ interface{}) (bool, interface{}) {
		token := input.(step).token
		return token > state.(int64), token
	},
}

type record map[string]*hold

func (holds record) line(text string) error {
	var at, number int64
	var who, event, resource, rest string
	var serial uint
	if _, err := fmt.Sscan(text, &at, &who, &event, &serial, &resource, &number, &rest); err != nil {
		return err
	}
	if who == "nemesis" || event == "stall" || strings.Contains(rest, "/") { // a semaphore's permits
		return nil
	}
	name := fmt.Sprintf("%s hold %d", who, serial)
	of := holds[name]
	if of == nil {
		of = &hold{name: name, resource: resource}
		holds[name] = of
	}
	switch event {
	case "start":
		of.started, of.shared = at, rest == "shared"
	case "held", "valid":
		if number <= 0 {
			break
		}
		if of.held == 0 {
			of.held = at
		}
		of.queries = append(of.queries, at)
		if until := at + number*int64(time.Microsecond); until > of.promised {
			of.promised = until
		}
	case "fence":
		if of.shared { // another's
			break
		}
		of.token, of.tokenAt = number, at
	case "release", "lost":
		if of.ended == 0 {
			of.ended = at
		}
	}
	return nil
}

func (of *hold) end() int64 {
	if of.ended != 0 && of.ended < of.promised {
		return of.ended
	}
	return of.promised
}

func (of *hold) steps() (lock, fencing []porcupine.Operation) {
	if of.held == 0 || of.end() <= of.held {
		return // the client was never promised anything
	}
	name, begin, end := "["+of.name+"]", of.started, int64(math.MaxInt64)
	if of.shared {
		name, begin, end = "("+of.name+")", of.held, of.end()
	}
	lock = append(lock, porcupine.Operation{Input: step{kind: "begin", name: name}, Call: begin, Return: of.held},
		porcupine.Operation{Input: step{kind: "end", name: name}, Call: of.end(), Return: end})
	for _, at := range of.queries {
		if at < of.end() {
			lock = append(lock, porcupine.Operation{Input: step{kind: "promise", name: name}, Call: at, Return: at})
		}
	}
	if of.token != 0 {
		fencing = append(fencing, porcupine.Operation{Input: step{token: of.token}, Call: of.started, Return: of.tokenAt})
	}
	return
}

// The last line of a file may be cut, because its writer was killed.
func (holds record) file(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	for number := 1; ; number++ {
		text, err := lines.ReadString('\n')
		if err != nil {
			return nil
		}
		if err := holds.line(text); err != nil {
			return fmt.Errorf("%s, line %d is no line of a history: %v", path, number, err)
		}
	}
}

func (holds record) judge() int {
	lock, fencing := map[string][]porcupine.Operation{}, map[string][]porcupine.Operation{}
	for _, of := range holds {
		ofLock, ofFencing := of.steps()
		lock[of.resource] = append(lock[of.resource], ofLock...)
		fencing[of.resource] = append(fencing[of.resource], ofFencing...)
	}
	resources := make([]string, 0, len(lock))
	for resource := range lock {
		resources = append(resources, resource)
	}
	sort.Strings(resources)
	status, judged := 0, 0
	for _, resource := range resources {
		for _, question := range []struct {
			name  string
			model porcupine.Model
			steps []porcupine.Operation
		}{{"lock", lockModel, lock[resource]}, {"fencing", fencingModel, fencing[resource]}} {
			result := porcupine.CheckOperationsTimeout(question.model, question.steps, patience)
			judged += len(question.steps)
			if result != porcupine.Ok {
				fmt.Printf("%s of %s: %d steps: %s\n", question.name, resource, len(question.steps), result)
			}
			if result == porcupine.Illegal {
				status = 1
			} else if result == porcupine.Unknown && status == 0 {
				status = 2
			}
		}
	}
	fmt.Printf("%d steps of %d resources: status %d\n", judged, len(resources), status)
	return status
}

func main() {
	holds := record{}
	for _, path := range os.Args[1:] {
		if err := holds.file(path); err != nil {
			fmt.Fprintln(os.Stderr, "judge:", err)
			os.Exit(2)
		}
	}
	if len(holds) == 0 {
		fmt.Fprintln(os.Stderr, "judge: no holds in the files", strings.Join(os.Args[1:], " "))
		os.Exit(2)
	}
	os.Exit(holds.judge())
}
