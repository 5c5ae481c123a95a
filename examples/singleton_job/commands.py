#!/usr/bin/env python3
"""Prints the command of each schedule in this directory, one per line, after checking the manifest's form."""
import os
import shlex
import sys

import yaml

here = os.path.dirname(os.path.abspath(__file__))


def lines(name):
    with open(os.path.join(here, name), encoding="utf-8") as file:
        return file.read().splitlines()


def crontab():
    jobs = [line for line in lines("crontab") if line[:1].isdigit()]
    assert len(jobs) == 1, jobs
    return jobs[0].split(None, 5)[5]


def service():
    starts = [line for line in lines("singleton-job.service") if line.startswith("ExecStart=")]
    assert len(starts) == 1, starts
    return starts[0].partition("=")[2]


def manifest():
    with open(os.path.join(here, "cronjob.yaml"), encoding="utf-8") as file:
        (job,) = yaml.safe_load_all(file)
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "CronJob"), job
    spec = job["spec"]
    assert len(spec["schedule"].split()) == 5 and spec["concurrencyPolicy"] == "Forbid", spec
    assert spec["jobTemplate"]["spec"]["backoffLimit"] == 0, spec
    pod = spec["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    command = container["command"]
    least = int(command[command.index("--at-least") + 1].rstrip("s"))
    wait = int(command[command.index("-w") + 1])
    assert spec["startingDeadlineSeconds"] + wait < least, "a late run would be a second one"
    assert pod["terminationGracePeriodSeconds"] > 2, "less than --grace"
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert {"REDLOCK_NODES", "REDLOCK_PASSWORD_FILE"} == {variable["name"] for variable in container["env"]}
    return shlex.join(container["command"] + container["args"])


for command in crontab, service, manifest:
    sys.stdout.write(command().replace("/usr/bin/", "") + "\n")
