// Package worker is a contender's process as in bench/worker.c, for clients written in Go: WORKER NODES. One command
// per line of standard input, one answer per line of standard output:
//
//	block IN_FLIGHT MICROSECONDS [OPERATIONS]    acquires and releases locks on fresh names
//	contend CONTENDERS MICROSECONDS HOLD_US      that many goroutines compete for one lock
package worker

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A Locker is one contender: no two of them may hold the same lock.
type Locker interface {
	// Lock returns false if the lock was not acquired.
	Lock(name string) bool
	// Unlock returns false if the release was not confirmed.
	Unlock() bool
}

type account struct {
	acquire, both    []time.Duration
	failed, handOffs int
}

func cpu() time.Duration {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// At returns a quantile of sorted durations.
func at(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(share*float64(len(sorted)-1))]
}

// Everyone runs the function for each locker at the same time, and adds up the accounts.
func everyone(lockers []Locker, run func(locker Locker, account *account)) (account, []account) {
	accounts := make([]account, len(lockers))
	var all account
	var group sync.WaitGroup
	for i := range lockers {
		group.Add(1)
		go func() {
			defer group.Done()
			run(lockers[i], &accounts[i])
		}()
	}
	group.Wait()
	for i := range accounts {
		all.acquire = append(all.acquire, accounts[i].acquire...)
		all.both = append(all.both, accounts[i].both...)
		all.failed += accounts[i].failed
		all.handOffs += accounts[i].handOffs
	}
	slices.Sort(all.acquire)
	slices.Sort(all.both)
	return all, accounts
}

var names atomic.Int64

func block(lockers []Locker, duration time.Duration, operations int) {
	began, cpuBegan := time.Now(), cpu()
	all, _ := everyone(lockers, func(locker Locker, account *account) {
		for n := 0; time.Since(began) < duration && (operations == 0 || n < operations); n++ {
			name := fmt.Sprintf("peer/%d/%d", os.Getpid(), names.Add(1))
			started := time.Now()
			if !locker.Lock(name) {
				account.failed++
				continue
			}
			acquired := time.Since(started)
			if !locker.Unlock() {
				account.failed++
				continue
			}
			account.acquire = append(account.acquire, acquired)
			account.both = append(account.both, time.Since(started))
		}
	})
	fmt.Printf("block operations=%d failed=%d wall=%d cpu=%d", len(all.both), all.failed, time.Since(began), cpu()-cpuBegan)
	fmt.Printf(" acquire=%d,%d,%d", at(all.acquire, 0.5), at(all.acquire, 0.99), at(all.acquire, 1))
	fmt.Printf(" both=%d,%d,%d first=0 again=0\n", at(all.both, 0.5), at(all.both, 0.99), at(all.both, 1))
}

func milliseconds(duration time.Duration) float64 {
	return float64(duration) / 1e6
}

func jain(accounts []account) float64 {
	var sum, squares float64
	for i := range accounts {
		n := float64(len(accounts[i].both))
		sum += n
		squares += n * n
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(accounts)) * squares)
}

// A wait that the end cuts short counts with its duration until then. The numbers are in the order of enum
// contest_figure (bench/contest.h).
func contend(lockers []Locker, duration, hold time.Duration) {
	var holder, last atomic.Pointer[account]
	var overlaps, lost atomic.Int64
	began, cpuBegan := time.Now(), cpu()
	all, accounts := everyone(lockers, func(locker Locker, account *account) {
		for started := time.Now(); time.Since(began) < duration; {
			if !locker.Lock("peer/contended") {
				lost.Add(1)
				continue
			}
			account.acquire = append(account.acquire, time.Since(started))
			if !holder.CompareAndSwap(nil, account) {
				overlaps.Add(1)
			}
			if last.Swap(account) != account {
				account.handOffs++
			}
			time.Sleep(hold)
			holder.CompareAndSwap(account, nil)
			if !locker.Unlock() {
				account.failed++
			}
			account.both = append(account.both, 0)
			started = time.Now()
		}
	})
	acquired := float64(len(all.acquire))
	for i := range accounts {
		if len(accounts[i].acquire) == 0 {
			all.acquire = append(all.acquire, duration)
		}
	}
	fmt.Printf("%g %g 0", acquired/time.Since(began).Seconds(), 100*float64(all.handOffs)/acquired)
	fmt.Printf(" %g %g", milliseconds(at(all.acquire, 0.5)), milliseconds(at(all.acquire, 0.99)))
	fmt.Printf(" %g %g 0", milliseconds(at(all.acquire, 0.99)), milliseconds(at(all.acquire, 1)))
	fmt.Printf(" %g %g %g", jain(accounts), float64(lost.Load())/acquired, milliseconds(cpu()-cpuBegan)/acquired)
	fmt.Printf(" %d %d\n", all.failed, overlaps.Load())
}

// Run serves commands until the end of standard input. The function returns a new contender.
func Run(newLocker func() Locker) {
	var lockers []Locker
	enough := func(count int) []Locker {
		for len(lockers) < count {
			lockers = append(lockers, newLocker())
		}
		return lockers[:count]
	}
	enough(1)
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var inFlight, operations, holdUs int
		var us int64
		if n, _ := fmt.Sscanf(lines.Text(), "block %d %d %d", &inFlight, &us, &operations); n >= 2 {
			block(enough(inFlight), time.Duration(us)*time.Microsecond, operations)
		} else if n, _ := fmt.Sscanf(lines.Text(), "contend %d %d %d", &inFlight, &us, &holdUs); n == 3 {
			contend(enough(inFlight), time.Duration(us)*time.Microsecond, time.Duration(holdUs)*time.Microsecond)
		} else {
			fmt.Println("error: not understood:", lines.Text())
		}
	}
	os.Exit(0)
}
