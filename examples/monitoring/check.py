#!/usr/bin/env python3
"""Checks that rules.yml and dashboard.json use metrics that exist: check.py METRICS RULES DASHBOARD DOCUMENT

METRICS is the output of redlock_metrics(). Every metric, label and value in the expressions must be in it; counters are
used with rate() or increase(), gauges without. DOCUMENT must name every alert."""
import json
import re
import sys

import yaml

SAMPLE = re.compile(r"^(redlock_\w+)(?:\{(.*)\})? \S+$")
LABEL = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
USE = re.compile(r"(?:\b(rate|increase)\()?\b(redlock_\w+)(?:\{([^}]*)\})?(\[)?")
ADDED = {"job", "instance"}  # by Prometheus


def read_metrics(text):
    """The label sets of each metric, and the type of each."""
    samples, types = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:4]
            for end in ("_bucket", "_sum", "_count") if kind == "histogram" else ("",):
                types[name + end] = "counter" if kind == "histogram" else kind
        elif not line.startswith("#") and line:
            name, labels = SAMPLE.match(line).groups()
            samples.setdefault(name, []).append({key: value for key, _, value in LABEL.findall(labels or "")})
    return samples, types


def faults(expression, metrics):
    samples, types = metrics
    for function, name, labels, is_range in USE.findall(expression):
        if name not in samples:
            yield f"no metric {name}"
            continue
        if (types[name] == "counter") != bool(function and is_range):
            yield f"{name} is a {types[name]}"
        for key, operator, value in LABEL.findall(labels):
            values = {labels.get(key) for labels in samples[name]}
            wanted = value.split("|") if operator in ("=~", "!~") else [value]
            if key not in ADDED and not set(wanted) <= values:
                yield f"{name} has no {key}={value}"


def expressions(rules, dashboard):
    for group in rules["groups"]:
        for rule in group["rules"]:
            assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"} and rule["annotations"]["summary"], rule
            yield rule["alert"], rule["expr"]
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def check(uses, metrics):
    return [f"{where}: {fault}" for where, expression in uses for fault in faults(expression, metrics)]


def main(metrics_path, rules_path, dashboard_path, document_path):
    with open(metrics_path, encoding="utf-8") as file:
        metrics = read_metrics(file.read())
    with open(rules_path, encoding="utf-8") as file:
        rules = yaml.safe_load(file)
    with open(dashboard_path, encoding="utf-8") as file:
        dashboard = json.load(file)
    with open(document_path, encoding="utf-8") as file:
        document = file.read()
    planted = [("planted", 'rate(redlock_no_total[5m]) + redlock_losses_total + rate(redlock_locks_held[1m])'),
               ("planted", 'rate(redlock_acquires_total{status="NONE"}[5m])')]
    assert len(check(planted, metrics)) == 4, check(planted, metrics)
    uses = list(expressions(rules, dashboard))
    found = check(uses, metrics)
    alerts = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    found += [f"{document_path} does not explain {alert}" for alert in alerts if f"`{alert}`" not in document]
    found += [f"there is no alert {name}" for name in re.findall(r"`(Redlock\w+)`", document) if name not in alerts]
    print("\n".join(found) or f"{len(alerts)} alerts and {len(uses) - len(alerts)} queries use metrics that exist")
    return bool(found)


sys.exit(main(*sys.argv[1:]))
