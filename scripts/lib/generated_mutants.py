"""
Samples mutants of the C files below PATH and runs the build's tests on each: scripts/mutants.sh --generated.

The mutants are those of universalmutator (its rules for C), which knows nothing of these tests. They are compiled and linked in the work directory with
the build's own commands; the tree is only read. A sampled mutant that does not compile is replaced by the next one; one whose object code is that of
the original changes nothing. The tests are those that ctest lists, and link the file: first those that tests/simulation/mutants.txt names for the file or
that bear its name, then the others, the ones without servers first. A test counts only if it passes without a mutant, and a failure only if it
repeats.
"""
import argparse
import collections
import contextlib
import io
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from universalmutator import mutator

Test = collections.namedtuple('Test', 'name target arguments environment labels')
baselines, locks = {}, collections.defaultdict(threading.Lock)
catches = collections.Counter() # of each (file, name of a test)
ninja_lock = threading.Lock()


def run(command, seconds=600, environment=None, cwd=None, report=None):
    """Returns the exit status (None: out of time) and the output. A Check program that writes this report ends with its first failure. No process is left
    in its session: Check gives each case a group of its own."""
    if report:
        open(report, 'w', encoding='utf-8').close()
        environment = {**environment, 'CK_TAP_LOG_FILE_NAME': report}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, errors='replace',
                               env={**os.environ, **(environment or {})}, cwd=cwd or options.build, start_new_session=True,
                               shell=isinstance(command, str))
    end = time.monotonic() + seconds
    try:
        while True:
            try:
                output, _ = process.communicate(timeout=max(0, min(0.3, end - time.monotonic())))
                return process.returncode, output
            except subprocess.TimeoutExpired:
                failure = report and re.search('^not ok .*', pathlib.Path(report).read_text(encoding='utf-8', errors='replace'), re.MULTILINE)
                if failure or time.monotonic() >= end:
                    return (1, failure.group()) if failure else (None, '')
    finally:
        if process.poll() != 0:
            process.kill()
            subprocess.run(['pkill', '-KILL', '-s', str(process.pid)], check=False)
        process.wait()


def ninja(*arguments):
    with ninja_lock:
        return subprocess.run(['ninja', '-C', options.build, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def command_of(target, known={}):
    if target not in known:
        line = ninja('-t', 'commands', target).stdout.splitlines()[-1]
        known[target] = line.removeprefix(': && ').removesuffix(' && :').replace('ccache ', '', 1)
    return known[target]


# --- Mutants ---


def changes_nothing(old, new):
    """A loop that ends at its bound rather than from it on, or a sum the other way round."""
    loop = re.sub(r'(for \(.* = 0; \w+) < (.*\+\+\))', r'\1 != \2', old)
    turned = sorted(old.replace(' ', '')) == sorted(new.replace(' ', '')) and 'quorum_time_add ( ' in new
    return new == loop or turned


def mutants_of(file):
    """(file, number of the line, new text) of each mutant. An assert only watches: a weaker one fails no test."""
    with open(file, encoding='utf-8') as source, contextlib.redirect_stdout(io.StringIO()):
        lines = source.readlines()
        found = mutator.mutants_regexp(lines, ['universal.rules', 'c_like.rules', 'c.rules'], ignorePatterns=[r'^\s*#', r'\b(static_)?assert\('],
                                       ignoreStringOnly=True)
    return [(file, mutant[0], mutant[1]) for mutant in found if not changes_nothing(lines[mutant[0] - 1], mutant[1])]


def equivalents():
    """Why the known mutants change nothing that can be observed, by file, old and new text; '*' for any new text."""
    known, file, reason, old = {}, '', '', ''
    with open('scripts/lib/equivalent_mutants.txt', encoding='utf-8') as lines:
        for line in lines:
            sign, text = line[:2], line[2:].strip()
            if sign == '@ ':
                file = text
            elif sign == '- ':
                old = text
            elif sign == '+ ':
                known[file, old, text] = reason
            elif sign != '# ':
                reason = line.strip()
    return known


def sample(path):
    files = [path] if path.endswith('.c') else sorted(str(file) for file in pathlib.Path(path).rglob('*.c'))
    mutants = [mutant for file in files for mutant in mutants_of(file)]
    random.Random(options.seed).shuffle(mutants)
    return mutants


# --- Tests ---


def tests_of_build():
    """ctest leaves out the command of a program that is not built: a Check program is built when it is first needed, the simulator at once."""
    ninja('tests/simulation/sim')
    listed = json.loads(subprocess.run(['ctest', '--test-dir', options.build, '--show-only=json-v1'], stdout=subprocess.PIPE, text=True, check=True).stdout)
    targets = set(re.findall(r'^(tests/test_\w+):', ninja('-t', 'targets', 'all').stdout, re.MULTILINE))
    tests = []
    for test in listed['tests']:
        properties = {each['name']: each['value'] for each in test['properties']}
        labels, name, command = properties.get('LABELS', []), test['name'], test.get('command', [''])
        target = f'tests/test_{name}' if f'tests/test_{name}' in targets else os.path.relpath(command[0] or '/', options.build)
        if target in targets | {'tests/simulation/sim'} and not {'nofork', 'timing', 'neighbour'} & set(labels):
            environment = dict(each.split('=', 1) for each in properties.get('ENVIRONMENT', []))
            tests.append(Test(name, target, command[1:], {**environment, 'CK_FORK': 'yes', 'CK_TIMEOUT_MULTIPLIER': '1'}, labels))
    return tests


def named_for(file):
    names, at = set(), ''
    with open('tests/simulation/mutants.txt', encoding='utf-8') as bugs:
        for line in bugs:
            if line.startswith('@ '):
                at = line[2:].strip()
            elif line.startswith('= ') and at == file:
                names |= {name.split(':')[0] for name in line[2:].split()}
    return names


def tests_for(file, tests):
    """The tests that the file is a part of: the nearest first, then those that caught its other mutants."""
    stem, named = os.path.basename(file)[:-2], named_for(file)

    def links(test):
        if file.startswith('cli/') and 'cli' in test.labels and 'servers' in test.labels:
            return True
        command = command_of(test.target)
        return f'/{file}.o' in command or object_of(file) in command or (not file.startswith('cli/') and 'src/libredlock.a' in command)

    def distance(test):
        near = test.name in named, *(re.search(rf'(^|_){word}($|_)', test.name) is not None for word in (stem, stem.split('_')[0]))
        slow = [label in test.labels for label in ('exhaustive', 'servers', 'timed', 'simulation')]
        return [not any(near), not near[0], -catches[file, test.name], not near[1], *slow, baselines.get(test.name) or 0]

    return sorted((test for test in tests if links(test)), key=distance)


def object_of(file):
    folder, name = file.split('/', 1)
    return {'quorum': f'quorum/CMakeFiles/redlock_quorum.dir/{name}.o',
            'src': f'src/CMakeFiles/redlock_core.dir/{name}.o',
            'cli': f'cli/CMakeFiles/redlock_command{"" if name == "main.c" else "_parts"}.dir/{name}.o'}[folder]


def passes_without(test):
    """How many seconds the test takes without a mutant; None: it fails. It is built and run once, when a mutant first needs it."""
    with locks[test.name]:
        if test.name not in baselines:
            ninja(test.target, *(['cli/redlock'] if 'cli' in test.labels else []))
            begin = time.monotonic()
            status, output = run([os.path.join(options.build, test.target), *test.arguments], 900, test.environment)
            baselines[test.name] = time.monotonic() - begin if status == 0 else None
            if status not in (0, 77):
                print(f'left out: {test.name} fails without a mutant: {"".join(output.splitlines()[-1:])}', flush=True)
        return baselines[test.name]


# --- One mutant ---


def compile_text(file, text, directory, name):
    """Compiles the text as the file. Returns the object, or None."""
    source, object_file = os.path.join(directory, 'source.c'), os.path.join(directory, name)
    with open(source, 'w', encoding='utf-8') as out:
        out.write(text)
    words = shlex.split(command_of(object_of(file)))
    quick = ['-O1', '-g0', '-Wno-format-truncation', '-Wno-maybe-uninitialized'] # two warnings that differ by the optimisation
    words = words[:words.index('-MD')] + [*quick, f'-ffile-prefix-map={directory}=.', '-iquote', os.path.dirname(os.path.abspath(file)),
                                          '-o', object_file, '-c', source]
    return object_file if run(words, 120)[0] == 0 else None


def compile_including(target, file, directory):
    """A test that includes the file runs the source, not the library's object. Returns the test's object and that with the mutant."""
    for own in re.findall(r'\S*\.dir/\w+_test\.c\.o(?= )', command_of(target)):
        source = re.sub(r'CMakeFiles/\w+\.dir/(\w+\.c)\.o', r'\1', own)
        if f'#include "{file}"' in pathlib.Path(source).read_text(encoding='utf-8'):
            tree, mutant = os.path.join(directory, 'own'), os.path.join(directory, 'own.o')
            os.makedirs(os.path.join(tree, os.path.dirname(file)), exist_ok=True)
            shutil.copy(os.path.join(directory, 'source.c'), os.path.join(tree, file))
            words = shlex.split(command_of(own))
            words = words[:words.index('-MD')] + ['-w', '-iquote', tree, '-o', mutant, '-c', os.path.abspath(source)]
            return (own, mutant) if run(words, 120)[0] == 0 else (own, '')
    return None, None


def link(target, file, mutant, directory):
    command, program = command_of(target), os.path.join(directory, os.path.basename(target))
    own, including = compile_including(target, file, directory)
    if own:
        return program if run(command.replace(own, including).replace(f' -o {target} ', f' -o {program} ', 1), 300)[0] == 0 else None
    replaced = re.sub(rf'\S*/{re.escape(file)}\.o(?= )|{re.escape(object_of(file))}(?= )', mutant, command)
    if replaced == command: # before the archive, the mutant takes the place of the object in it
        replaced = command.replace(' src/libredlock.a', f' {mutant} src/libredlock.a', 1)
    replaced = replaced.replace(f' -o {target} ', f' -o {program} ', 1)
    return program if replaced != command and run(replaced, 300)[0] == 0 else None # a changed name, for one


def fails(test, program, seconds, directory):
    """A failure that repeats, and that the test without the mutant does not have now. Of a failed case only this case runs again."""
    environment, report = dict(test.environment), os.path.join(directory, 'report')
    if 'cli' in test.labels:
        environment['REDLOCK_TEST_PROGRAM'] = os.path.join(directory, 'redlock')
    status, output = run([program, *test.arguments], seconds, environment, report=report)
    if status in (0, 77):
        return False
    case = re.search(r'^not ok [^:]*:(\w+):|^\S+:\d+:[FE]:(\w+):', output, re.MULTILINE)
    if case:
        environment['CK_RUN_CASE'] = case.group(1) or case.group(2)
    if run([program, *test.arguments], seconds, environment, report=report)[0] in (0, 77):
        return False
    if 'unit' in test.labels and status is not None and 'timeout expired' not in output:
        return True
    environment.pop('REDLOCK_TEST_PROGRAM', None) # the machine may be too busy for it
    return run([os.path.join(options.build, test.target), *test.arguments], seconds, environment, report=report)[0] == 0


def judge(file, line, new, directory, equivalent):
    """What became of the mutant: 'no object', 'no test', 'same code', 'equivalent: ' why, 'survived' or 'caught by ' a test."""
    with open(file, encoding='utf-8') as source:
        lines = source.readlines()
    original = os.path.join(options.work, f'{file.replace("/", "_")}.o')
    if not os.path.exists(original):
        os.replace(compile_text(file, ''.join(lines), directory, 'original.o'), original)
    lines[line - 1] = new
    mutant = compile_text(file, ''.join(lines), directory, 'mutant.o')
    if not mutant:
        return 'no object'
    with open(original, 'rb') as before, open(mutant, 'rb') as after:
        if before.read() == after.read():
            return 'same code'
    if equivalent:
        return f'equivalent: {equivalent}'
    if file.startswith('cli/') and not link('cli/redlock', file, mutant, directory):
        return 'no object'
    judges = tests_for(file, all_tests)
    if not any(passes_without(test) is not None for test in judges):
        return 'no test'
    for test in judges:
        seconds = passes_without(test)
        if seconds is None or (options.seconds and seconds > options.seconds):
            continue
        program = os.path.join(options.build, test.target)
        if not (file.startswith('cli/') and 'servers' in test.labels):
            program = link(test.target, file, mutant, directory)
        if not program:
            return 'no object'
        if fails(test, program, 30 + 3 * seconds, directory):
            catches[file, test.name] += 1
            return f'caught by {test.name}'
    return 'survived'


def judge_apart(candidate):
    file, line, new = candidate
    directory = os.path.join(options.work, f'{abs(hash(candidate))}')
    os.makedirs(directory)
    try:
        with open(file, encoding='utf-8') as source:
            old, text = source.readlines()[line - 1].strip(), ' '.join(new.split())
        fate = judge(file, line, new, directory, known_equivalents.get((file, old, text)) or known_equivalents.get((file, old, '*')))
        return file, line, old, text, fate
    finally:
        shutil.rmtree(directory, ignore_errors=True)


parser = argparse.ArgumentParser()
for option, kind in ('build', str), ('work', str), ('jobs', int), ('generated', int), ('seed', int), ('seconds', int), ('path', str):
    parser.add_argument(f'--{option}', type=kind, required=True)
options = parser.parse_args()
candidates = collections.deque(sample(options.path))
known_equivalents = equivalents()
all_tests = tests_of_build()

counts, lock = collections.Counter(), threading.Lock()


def work():
    """Judges one candidate after the other, until there are as many as were wanted."""
    while True:
        with lock:
            if counts['begun'] >= options.generated or not candidates or counts['no test']:
                return
            counts['begun'] += 1
            candidate = candidates.popleft()
        file, line, old, new, fate = judge_apart(candidate)
        with lock:
            if fate == 'no object':
                counts['begun'] -= 1
                continue
            kind = re.split(' by |: ', fate)[0]
            counts[kind] += 1
            print(f'{kind:<12}{file}:{line}: {old}\n{"":<12}becomes {new}' + (f'\n{"":<12}{fate}' if kind != fate else ''), flush=True)


with ThreadPoolExecutor(options.jobs) as pool:
    for each in [pool.submit(work) for _ in range(options.jobs)]:
        each.result()
if counts['no test']:
    print('scripts/mutants.sh: no test of the build links this file and passes without a mutant.', file=sys.stderr)
    sys.exit(2)
kinds = ' '.join(f'{kind} {counts[kind]}' for kind in ('caught', 'same code', 'equivalent', 'survived'))
print(f'\nseed {options.seed}, {options.path}: generated {counts["begun"]} {kinds}')
sys.exit(1 if counts['survived'] else 0)
