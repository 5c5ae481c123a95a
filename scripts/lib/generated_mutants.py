"""
Samples mutants of the C files below PATH and runs the tests that reach each: scripts/mutants.sh --generated.

The mutants are those of universalmutator (its rules for C), which knows nothing of these tests. They are compiled and linked in the work directory with
the commands of the build 'coverage'; the tree is only read. A sampled mutant that does not compile is replaced by the next one; one whose object code is
that of the original changes nothing.

The tests are those that ctest lists, and link the file. Each runs once without a mutant, alone (TEST_ONLY, tests/support/test.h), so that gcov can say
which lines it reaches; the counters and the test's time stay in the build's directory 'reached' until its program is built anew. A mutant is judged by
the tests that reach its line, the quicker ones, those of its name and those that caught other mutants first. A failure counts only if it repeats, and if the
test still passes without the mutant.
"""
import argparse
import collections
import contextlib
import dataclasses
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

Reached = collections.namedtuple('Reached', 'functions lines tests') # of one file; the tests: which lines each reaches
locks, catches = collections.defaultdict(threading.Lock), collections.Counter() # catches: of a test, and of a (file, test)
ninja_lock = threading.Lock()


@dataclasses.dataclass(eq=False)
class Test:
    name: str
    target: str
    arguments: list
    environment: dict
    labels: list
    seconds: float = 0 # without a mutant; 0 or less: it cannot judge


def run_apart(program, *arguments, **options_of_run):
    """Runs the test in a PID namespace of its own: a mutant may send a signal to every process. Its first process has to reap the orphans."""
    return run([*apart, 'sh', '-c', '"$@"; exit $?', 'sh', program, *arguments], **options_of_run)


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


def in_build(target):
    return os.path.join(options.build, target)


def tests_of_build(files):
    """Builds the programs that link these files. Each of the tests in a program is one of its own; a run of the simulator is one, too."""
    listed = json.loads(subprocess.run(['ctest', '--test-dir', options.build, '--show-only=json-v1'], stdout=subprocess.PIPE, text=True, check=True).stdout)
    targets = set(re.findall(r'^(tests/test_\w+):', ninja('-t', 'targets', 'all').stdout, re.MULTILINE))
    programs = []
    for test in listed['tests']:
        properties = {each['name']: each['value'] for each in test['properties']}
        labels, name, command = properties.get('LABELS', []), test['name'], test.get('command', [''])
        target = f'tests/test_{name}' if f'tests/test_{name}' in targets else os.path.relpath(command[0] or '/', options.build)
        if target in targets | {'tests/simulation/sim'} and not {'nofork', 'timing', 'neighbour'} & set(labels):
            programs.append(Test(name, target, command[1:], dict(each.split('=', 1) for each in properties.get('ENVIRONMENT', [])), labels))
    programs = [each for each in programs if any(links(each, file) for file in files)]
    built = ninja(*{each.target for each in programs}, *(['cli/redlock'] if any('cli' in each.labels for each in programs) else []))
    if built.returncode != 0:
        sys.exit(built.stdout)
    tests = []
    for each in programs:
        names = re.findall('^test (.*)', run([in_build(each.target)], 60, {'TEST_ONLY': ''})[1], re.MULTILINE) if each.target in targets else []
        tests += [dataclasses.replace(each, name=f'{each.name}.{name}', environment={**each.environment, 'TEST_ONLY': name}) for name in names] or [each]
    return tests


def links(test, file):
    if 'cli' in test.labels and 'servers' in test.labels: # they run the command, which uses libredlock.so
        return file.startswith('cli/')
    command = command_of(test.target)
    return f'/{file}.o' in command or object_of(file) in command or (not file.startswith('cli/') and 'src/libredlock.a' in command)


def reached_directory(test):
    return in_build(f'reached/{test.name.replace("/", "-")}') # a story's heading may have one


def record(test):
    """Runs the test without a mutant and keeps its counters and how many seconds it took (less than 0: longer than that bound; 0: it fails), unless that
    was done since its program was built."""
    directory, bound = reached_directory(test), options.seconds or 900
    kept = pathlib.Path(directory, 'seconds')
    programs = [in_build(test.target), *([in_build('cli/redlock')] if 'cli' in test.labels else [])]
    if kept.exists() and all(os.path.getmtime(each) <= kept.stat().st_mtime for each in programs):
        test.seconds = float(kept.read_text(encoding='utf-8'))
        if test.seconds >= 0 or -test.seconds >= bound:
            return
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    begin, counters = time.monotonic(), {'GCOV_PREFIX': directory, 'GCOV_PREFIX_STRIP': str(options.build.count('/'))}
    status, output = run_apart(in_build(test.target), *test.arguments, seconds=bound, environment={**test.environment, **counters})
    test.seconds = -bound if status is None else 0 if status else time.monotonic() - begin
    if status not in (0, 77):
        why = f'takes longer than {bound} s' if status is None else f'fails without a mutant: {"".join(output.splitlines()[-1:])}'
        print(f'left out: {test.name} {why}', flush=True)
    kept.write_text(str(test.seconds), encoding='utf-8')


def reached(file, known={}):
    """What gcov says of the file, in whichever objects it is compiled."""
    with locks[file]:
        if file not in known:
            counters, lines, functions, tests = {}, set(), [], collections.defaultdict(set)
            for test in (test for test in all_tests if test.seconds > 0 and links(test, file)):
                objects = [object_of(file), *re.findall(rf'\S*/{re.escape(file)}\.o(?= )', command_of(test.target)), *objects_including(test.target, file)]
                for each in {each[:-2] for each in objects}:
                    counter = f'{reached_directory(test)}/{each}.gcda'
                    if os.path.exists(counter):
                        counters[counter] = test
                        if not os.path.exists(f'{counter[:-4]}gcno'):
                            os.symlink(in_build(f'{each}.gcno'), f'{counter[:-4]}gcno')
            command = ['gcov', '--json-format', '--stdout', *counters] if counters else ['true']
            for data in map(json.loads, subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()):
                for about in (about for about in data['files'] if os.path.relpath(about['file']) == file):
                    functions += [(each['start_line'], each['end_line']) for each in about['functions']]
                    lines |= {each['line_number'] for each in about['lines']}
                    tests[counters[data['data_file']]] |= {each['line_number'] for each in about['lines'] if each['count'] > 0}
            known[file] = Reached(set(functions), sorted(lines), tests)
        return known[file]


def tests_for(file, line):
    """Those that reach the line, or of a table the file; and which of both. If none reaches the line: those that reach the file, because a child that
    ends by a signal or by _exit() leaves no counters."""
    known = reached(file)
    start = max((start for start, end in known.functions if start <= line <= end), default=None)
    at = start and max((each for each in known.lines if start <= each <= line), default=start)
    of_file = [test for test, lines in known.tests.items() if lines]
    of_line = [test for test in of_file if not at or at in known.tests[test]]
    stem = os.path.basename(file)[:-2]

    def cost(test):
        return (0.2 + test.seconds) / (1 + catches[test.name] + 4 * catches[file, test.name] + 4 * (stem in test.name.split('.')[0]))

    return sorted(of_line or of_file, key=cost), 'the line' if of_line else 'the file alone'


def object_of(file):
    folder, name = file.split('/', 1)
    return {'quorum': f'quorum/CMakeFiles/redlock_quorum.dir/{name}.o',
            'src': f'src/CMakeFiles/redlock_core.dir/{name}.o',
            'cli': f'cli/CMakeFiles/redlock_command{"" if name == "main.c" else "_parts"}.dir/{name}.o'}[folder]


# --- One mutant ---


def compile_text(file, text, directory, name):
    """Compiles the text as the file. Returns the object, or None."""
    source, object_file = os.path.join(directory, 'source.c'), os.path.join(directory, name)
    with open(source, 'w', encoding='utf-8') as out:
        out.write(text)
    words = shlex.split(command_of(object_of(file)))
    words = [word for word in words[:words.index('-MD')] if word not in ('--coverage', '-fprofile-update=atomic')]
    words += ['-O1', '-g0', '-Wno-format-truncation', '-Wno-maybe-uninitialized'] # two warnings that differ by the optimisation
    words += [f'-ffile-prefix-map={directory}=.', '-iquote', os.path.dirname(os.path.abspath(file)), '-o', object_file, '-c', source]
    return object_file if run(words, 120)[0] == 0 else None


def objects_including(target, file):
    """The objects of a test that includes the file: it runs the source, not the library's object."""
    for own in re.findall(r'\S*\.dir/\w+_test\.c\.o(?= )', command_of(target)):
        if f'#include "{file}"' in pathlib.Path(source_of(own)).read_text(encoding='utf-8'):
            yield own


def source_of(own):
    return re.sub(r'CMakeFiles/\w+\.dir/(\w+\.c)\.o', r'\1', own)


def compile_including(target, file, directory):
    """Returns the object of a test that includes the file, and that with the mutant."""
    for own in objects_including(target, file):
        tree, mutant = os.path.join(directory, 'own'), os.path.join(directory, 'own.o')
        os.makedirs(os.path.join(tree, os.path.dirname(file)), exist_ok=True)
        shutil.copy(os.path.join(directory, 'source.c'), os.path.join(tree, file))
        words = shlex.split(command_of(own))
        words = words[:words.index('-MD')] + ['-w', '-iquote', tree, '-o', mutant, '-c', os.path.abspath(source_of(own))]
        return (own, mutant) if run(words, 120)[0] == 0 else (own, '')
    return None, None


def link(target, file, mutant, directory):
    command, program = f'{command_of(target)} -Wl,-s{" -fuse-ld=gold" if shutil.which("ld.gold") else ""}', os.path.join(directory, os.path.basename(target))
    own, including = compile_including(target, file, directory)
    if own:
        return program if run(command.replace(own, including).replace(f' -o {target} ', f' -o {program} ', 1), 300)[0] == 0 else None
    replaced = re.sub(rf'\S*/{re.escape(file)}\.o(?= )|{re.escape(object_of(file))}(?= )', mutant, command)
    if replaced == command: # before the archive, the mutant takes the place of the object in it
        replaced = command.replace(' src/libredlock.a', f' {mutant} src/libredlock.a', 1)
    replaced = replaced.replace(f' -o {target} ', f' -o {program} ', 1)
    return program if replaced != command and run(replaced, 300)[0] == 0 else None # a changed name, for one


def fails(test, program, directory):
    """A failure that repeats, and that the test without the mutant does not have now: the machine may be too busy for it."""
    seconds, report = 10 + 4 * test.seconds, os.path.join(directory, 'report')
    environment = {**test.environment, 'CK_DEFAULT_TIMEOUT': str(seconds), 'CK_TIMEOUT_MULTIPLIER': '1', 'GCOV_PREFIX': directory,
                   'MALLOC_PERTURB_': '165'} # memory that is not set is not 0
    ours = {**environment, 'REDLOCK_TEST_PROGRAM': os.path.join(directory, 'redlock')} if 'cli' in test.labels else environment

    def passes(program, environment):
        return run_apart(program, *test.arguments, seconds=seconds, environment=environment, report=report)[0] in (0, 77)

    return not passes(program, ours) and ('unit' in test.labels or passes(in_build(test.target), environment)) and not passes(program, ours)


def judge(file, line, new, directory, equivalent):
    """What became of the mutant: 'no object', 'same code', 'equivalent: ' why, 'caught by ' a test or 'survived: ' what."""
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
    (judges, what), left, programs = tests_for(file, line), options.seconds or float('inf'), {}
    for test in judges:
        left -= test.seconds
        if left < 0:
            return f'survived: {judges.index(test)} of the {len(judges)} tests that reach {what}'
        if test.target not in programs:
            at_command = file.startswith('cli/') and 'servers' in test.labels
            programs[test.target] = in_build(test.target) if at_command else link(test.target, file, mutant, directory)
        if not programs[test.target]:
            return 'no object'
        if fails(test, programs[test.target], directory):
            catches.update([test.name, (file, test.name)])
            return f'caught by {test.name}'
    return f'survived: all {len(judges)} tests that reach {what}'


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
apart = ['unshare', *([] if os.geteuid() == 0 else ['--user', '--map-root-user']), '--pid', '--fork', '--kill-child', '--mount-proc']
if run([*apart, 'true'], cwd='.')[0] != 0:
    sys.exit('scripts/mutants.sh: --generated runs the tests in PID namespaces (a mutant may send a signal to every process), and unshare(1) was refused one.')
candidates = collections.deque(sample(options.path))
known_equivalents = equivalents()
all_tests = tests_of_build({file for file, _, _ in candidates})
with ThreadPoolExecutor(options.jobs) as pool:
    list(pool.map(record, all_tests))
if not any(test.seconds > 0 for test in all_tests):
    sys.exit('scripts/mutants.sh: no test of the build links this file and passes without a mutant.')

counts, lock = collections.Counter(), threading.Lock()


def work():
    """Judges one candidate after the other, until there are as many as were wanted."""
    while True:
        with lock:
            if counts['begun'] >= options.generated or not candidates:
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
kinds = ' '.join(f'{kind} {counts[kind]}' for kind in ('caught', 'same code', 'equivalent', 'survived'))
print(f'\nseed {options.seed}, {options.path}: generated {counts["begun"]} {kinds}')
sys.exit(1 if counts['survived'] else 0)
