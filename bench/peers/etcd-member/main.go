// One embedded etcd member: MEMBER NUMBER DIRECTORY PEER_PORTS CLIENT_PORTS, the ports of all members separated by
// commas. Prints "ready" when it serves; ends with standard input.
package main

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"

	"go.etcd.io/etcd/server/v3/embed"
)

func address(port string) url.URL {
	return url.URL{Scheme: "http", Host: "127.0.0.1:" + port}
}

func main() {
	number, _ := strconv.Atoi(os.Args[1])
	peers, clients := strings.Split(os.Args[3], ","), strings.Split(os.Args[4], ",")
	var cluster []string
	for i, port := range peers {
		url := address(port)
		cluster = append(cluster, fmt.Sprintf("m%d=%s", i, url.String()))
	}
	config := embed.NewConfig()
	config.Name = fmt.Sprintf("m%d", number)
	config.Dir = os.Args[2]
	config.LogLevel = "panic"
	config.LogOutputs = []string{"/dev/null"}
	config.ListenPeerUrls = []url.URL{address(peers[number])}
	config.AdvertisePeerUrls = config.ListenPeerUrls
	config.ListenClientUrls = []url.URL{address(clients[number])}
	config.AdvertiseClientUrls = config.ListenClientUrls
	config.InitialCluster = strings.Join(cluster, ",")
	member, err := embed.StartEtcd(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcd member:", err)
		os.Exit(1)
	}
	<-member.Server.ReadyNotify()
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	member.Close()
}
