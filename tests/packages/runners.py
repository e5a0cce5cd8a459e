# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
What the runners of GitHub and GitLab do with a job, as far as the files of this project ask for it: steps in turn, in a
fresh Debian, whose processes live on from step to step. What a file asks for beyond that is an error here.
"""

import os
import re
import shlex
import shutil
import subprocess

import yaml
from trees import ROOT, Tree

VERSION = re.search(r"^project\(simhca VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TIME_LIMIT = 1800


def sources(directory):
    """The files of the commit, as a forge hands them out."""
    archive = subprocess.run(["git", "-C", ROOT, "archive", "HEAD"], check=True, stdout=subprocess.PIPE).stdout
    directory.mkdir(parents=True)
    subprocess.run(["tar", "-x", "-C", directory], input=archive, check=True)


class Machine:
    """A fresh system with a directory of the host in /release, and what runs in it."""

    def __init__(self, system, release, *groups):
        self.tree = Tree(system, *groups)
        for name in "runner", "work":
            (self.tree.path / name).mkdir()
        self.steps = 0
        self.said = ""
        self.shell = subprocess.Popen(
            [ROOT / "scripts/chroot", "run", "--bind", f"{release}:/release", "--chdir", "/work", self.tree.path, "bash", "--norc"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.shell.stdin.close()
        self.shell.kill()
        self.shell.wait()
        self.tree.remove()

    def run(self, program, script, environment):
        """A script as a step; the exit status, and what it said."""
        self.steps += 1
        name = f"step-{self.steps}"
        (self.tree.path / "runner" / name).write_text(script)
        variables = " ".join(shlex.quote(f"{key}={value}") for key, value in environment.items())
        self.shell.stdin.write(f"env -i {variables} timeout {TIME_LIMIT} {program} /runner/{name} </dev/null >/runner/said 2>&1; echo {name} $?\n")
        self.shell.stdin.flush()
        status = None
        for line in self.shell.stdout:
            if line.startswith(name + " "):
                status = int(line.split()[1])
                break
        said = (self.tree.path / "runner/said").read_text(errors="replace")
        self.said += said
        return status, said


class Failed(Exception):
    """A step that failed, with what it said."""


class GitHub:
    """The job of a workflow."""

    SHELL = "bash --noprofile --norc -eo pipefail"

    def __init__(self, machine, **environment):
        self.machine = machine
        self.environment = {"HOME": "/root", "CI": "true"} | environment
        self.path = PATH

    @staticmethod
    def value(text, context):
        """An expression: a name, or two of which one is a text, compared."""
        def of(word):
            if word.startswith("'"):
                return word[1:-1]
            here = context
            for part in word.split("."):
                here = here[part]
            return here

        words = re.fullmatch(r"([\w.]+)(?: (==|!=) ('[^']*'))?", text)
        assert words, f"the runner of this test does not know {text}"
        if not words[2]:
            return of(words[1])
        return (of(words[1]) == of(words[3])) == (words[2] == "==")

    def filled(self, text, context):
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: str(self.value(found[1], context)), str(text))

    def file(self, name):
        path = self.machine.tree.path / "runner" / name
        path.write_text("")
        return path

    def step(self, step, context):
        if "if" in step and self.filled(step["if"], context) != "True":
            return
        assert set(step) <= {"name", "id", "if", "shell", "env", "run"} and step.get("shell", "bash") == "bash", step
        files = {name: self.file(name) for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT")}
        environment = self.environment | {"PATH": self.path} | {
            name: self.filled(value, context) for name, value in step.get("env", {}).items()} | {
            name: f"/runner/{name}" for name in files}
        status, said = self.machine.run(self.SHELL, self.filled(step["run"], context), environment)
        if status:
            raise Failed(f"{step}: {status}\n{said}")
        for line in files["GITHUB_ENV"].read_text().splitlines():
            name, equals, value = line.partition("=")
            assert equals and "<<" not in name, line
            self.environment[name] = value
        for line in files["GITHUB_PATH"].read_text().splitlines():
            self.path = f"{line}:{self.path}"
        outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
        context["steps"][step.get("id")] = {"outputs": outputs}

    def action(self, inputs):
        """The action of this repository: fetched, its steps run."""
        place = self.machine.tree.path / "runner/action"
        if not place.exists():
            sources(place)
        action = yaml.safe_load((place / "action.yml").read_text())
        assert action["runs"]["using"] == "composite" and set(inputs) <= set(action["inputs"])
        context = {"inputs": {name: inputs.get(name, given["default"]) for name, given in action["inputs"].items()},
                   "github": {"server_url": "https://forge.example", "action_repository": "OWNER/simhca",
                              "action_path": "/runner/action"}, "steps": {}}
        for step in action["runs"]["steps"]:
            assert "shell" in step, "a step of a composite action has to name its shell"
            self.step(step, context)
        return {name: self.filled(output["value"], context) for name, output in action["outputs"].items()}

    def job(self, job):
        assert set(job) <= {"runs-on", "container", "steps"} and job["container"] == f"debian:{self.machine.tree.release}"
        for step in job["steps"]:
            if step.get("uses") == f"OWNER/simhca@v{VERSION}":
                self.action(step.get("with", {}))
            elif "uses" in step:
                assert step["uses"].startswith("actions/checkout@"), step
            else:
                # Of a container's steps that name no shell it is sh.
                self.step(step, {"steps": {}})


class GitLab:
    """A job of a .gitlab-ci.yml; git fetches from a repository beside it."""

    def __init__(self, machine, **variables):
        self.machine = machine
        self.variables = variables

    @staticmethod
    def job(path, name):
        """It, with what it extends of what is included."""
        whole = yaml.safe_load(path.read_text())
        known = {}
        for included in whole.get("include", []):
            found = re.fullmatch(rf"https://\S+/raw/v{re.escape(VERSION)}/(\S+)", included["remote"])
            known |= yaml.safe_load((ROOT / found[1]).read_text())
        known |= whole
        job = dict(known[name])
        job = known[job.pop("extends")] | job
        assert set(job) <= {"image", "before_script", "script"}, job
        return job | {"variables": known.get("variables", {})}

    def run(self, job):
        """before_script and script are one script, whose lines are printed before they run; bash, where there is one."""
        assert job["image"] == f"debian:{self.machine.tree.release}"
        lines = [line for part in ("before_script", "script") for line in job.get(part, [])]
        script = "set -eo pipefail; set +o noclobber\n" + "".join(f"echo {shlex.quote('$ ' + line)}\n{line}\n" for line in lines)
        status, said = self.machine.run("bash", script, {"HOME": "/root", "PATH": PATH, "CI": "true"} | job["variables"] | self.variables)
        if status:
            raise Failed(f"{status}\n{said}")
        return said


def repository(tree, path):
    """This repository, with a tag of the version, in a system."""
    place = tree.path / path.lstrip("/")
    subprocess.run(["git", "clone", "-q", "--bare", ROOT, place], check=True)
    subprocess.run(["git", "-C", place, "tag", "-f", f"v{VERSION}", "HEAD"], check=True, stdout=subprocess.DEVNULL)
    for directory, _, names in os.walk(place):
        for name in names:
            shutil.chown(os.path.join(directory, name), 0, 0)
