#!/usr/bin/env bash
# The files that docs/deployments.md names: the StatefulSet has as many pods as its clients list, each on a machine of its own, and a
# budget; the Sentinels of docker-compose.sentinel.yml watch its servers, and its list of nodes names them. The Sentinels' own commands
# write their configuration.
. "$(dirname "$0")/../support/script.sh"
python3 -c 'import yaml' 2>/dev/null || skip "there is no PyYAML; install python3-yaml"

python3 - "$project" "$work" <<'PY'
import re, sys, yaml
project, work = sys.argv[1:]

path = project + "/examples/kubernetes/redlock-nodes.yaml"
text = open(path).read()
kinds = {document["kind"]: document for document in yaml.safe_load_all(text)}
pods, service, budget = kinds["StatefulSet"]["spec"], kinds["Service"], kinds["PodDisruptionBudget"]["spec"]
listed = re.search(r"^#   (\S+)$", text, re.M).group(1).split(",")
name = kinds["StatefulSet"]["metadata"]["name"]
assert listed == ["%s-%d.%s" % (name, i, service["metadata"]["name"]) for i in range(pods["replicas"])], listed
assert pods["serviceName"] == service["metadata"]["name"] and service["spec"]["clusterIP"] == "None"
labels = pods["template"]["metadata"]["labels"]
rule, = pods["template"]["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
for selector in (pods["selector"]["matchLabels"], budget["selector"]["matchLabels"], service["spec"]["selector"],
                 rule["labelSelector"]["matchLabels"]):
    assert selector == labels, selector
assert rule["topologyKey"] == "kubernetes.io/hostname" and budget["maxUnavailable"] == 1
arguments = pods["template"]["spec"]["containers"][0]["args"]
assert all(isinstance(argument, str) for argument in arguments), arguments  # a bare `no` would be false
assert "noeviction" in arguments

path = project + "/docker-compose.sentinel.yml"
text = open(path).read()
compose = yaml.safe_load(text)
services = compose["services"]
servers = {n: int(re.search(r"--port (\d+)", s["command"]).group(1)) for n, s in services.items() if n.startswith("redis-")}
listed = re.search(r"^#   nodes: (\S+)$", text, re.M).group(1)
nodes = re.findall(r"sentinel://([^/]+)/(\w+)", listed)
assert len(nodes) == 3 and len(servers) == 6 and len(set(servers.values())) == 6
for group, (addresses, master) in enumerate(nodes, 1):
    for i, address in enumerate(addresses.split(","), 1):
        name = "sentinel-%d-%d" % (group, i)
        command, = services[name]["command"]
        assert "'port %s'" % address.split(":")[1] in command, command
        assert "monitor %s 127.0.0.1 %d 2" % (master, servers["redis-%d-1" % group]) in command, command
        assert name in compose["volumes"] and services[name]["volumes"] == [name + ":/data"]
    assert services["redis-%d-2" % group]["command"].endswith("--replicaof 127.0.0.1 %d" % servers["redis-%d-1" % group])
open(work + "/command", "w").write(services["sentinel-2-3"]["command"][0])
PY

mkdir "$work/data"
sed -e "s,/data,$work/data,g" -e 's/^exec redis-server .*//' "$work/command" | sh -e
grep -qx 'sentinel monitor m2 127.0.0.1 6321 2' "$work/data/sentinel.conf" || die "the Sentinel's command writes: $(cat "$work/data/sentinel.conf")"
