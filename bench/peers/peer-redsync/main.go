// Redsync with its README's adapter, go-redis, and default options; with "failfast" as second argument it continues at
// the majority's reply.
package main

import (
	"os"
	"strings"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"

	"redlock/bench/peers/worker"
)

type locker struct {
	redsync *redsync.Redsync
	options []redsync.Option
	mutex   *redsync.Mutex
}

func (l *locker) Lock(name string) bool {
	l.mutex = l.redsync.NewMutex(name, l.options...)
	return l.mutex.Lock() == nil
}

func (l *locker) Unlock() bool {
	ok, err := l.mutex.Unlock()
	return ok && err == nil
}

func main() {
	var pools []redis.Pool
	for _, address := range strings.Split(os.Args[1], ",") {
		pools = append(pools, goredis.NewPool(goredislib.NewClient(&goredislib.Options{Addr: address})))
	}
	shared := redsync.New(pools...)
	var options []redsync.Option
	if len(os.Args) > 2 && os.Args[2] == "failfast" {
		options = append(options, redsync.WithFailFast(true))
	}
	worker.Run(func() worker.Locker { return &locker{redsync: shared, options: options} })
}
