// The lock of etcd's Go client. Each contender has a separate session, because a session is the lock's owner, and a new
// one when that has expired.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"redlock/bench/peers/worker"
)

const timeout = 10 * time.Second

type locker struct {
	client  *clientv3.Client
	session *concurrency.Session
	mutex   *concurrency.Mutex
}

func within(call func(ctx context.Context) error) bool {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return call(ctx) == nil
}

func (l *locker) Lock(name string) bool {
	select {
	case <-l.session.Done():
		session, err := concurrency.NewSession(l.client)
		if err != nil {
			return false
		}
		l.session = session
	default:
	}
	l.mutex = concurrency.NewMutex(l.session, name)
	return within(l.mutex.Lock)
}

func (l *locker) Unlock() bool {
	return within(l.mutex.Unlock)
}

func fail(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "etcd: %s: %v\n", what, err)
		os.Exit(1)
	}
}

// The first member leads, so that the last one, which the benchmark stops, is a follower.
func lead(client *clientv3.Client, first string) {
	ctx := context.Background()
	status, err := client.Status(ctx, first)
	fail("no status", err)
	id := status.Header.MemberId
	if status.Leader == id {
		return
	}
	members, err := client.MemberList(ctx)
	fail("no members", err)
	for _, member := range members.Members {
		if member.ID == status.Leader {
			leader, err := clientv3.New(clientv3.Config{Endpoints: member.ClientURLs, DialTimeout: timeout})
			fail("no client of the leader", err)
			_, err = leader.MoveLeader(ctx, id)
			fail("the leader does not change", err)
			leader.Close()
		}
	}
}

func main() {
	nodes := strings.Split(os.Args[1], ",")
	client, err := clientv3.New(clientv3.Config{Endpoints: nodes, DialTimeout: timeout, Logger: zap.NewNop()})
	fail("no client", err)
	lead(client, nodes[0])
	worker.Run(func() worker.Locker {
		session, err := concurrency.NewSession(client)
		fail("no session", err)
		return &locker{client: client, session: session}
	})
}
