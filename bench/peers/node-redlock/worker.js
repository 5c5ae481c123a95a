// node-redlock, as in bench/worker.c and bench/peers/worker: WORKER NODES, one command per line of standard input.
'use strict';
const readline = require('readline');
const Redis = require('ioredis');
const { default: Redlock } = require('redlock');

const TTL_MS = 10000;
const clients = process.argv[2].split(',').map((address) => {
  const [host, port] = address.split(':');
  return new Redis({ host, port: Number(port) });
});
const redlock = new Redlock(clients);
redlock.on('error', () => {}); // every lost attempt; the callers see it, too

const now = () => Number(process.hrtime.bigint());
const cpu = () => {
  const usage = process.cpuUsage();
  return (usage.user + usage.system) * 1000;
};
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const at = (sorted, share) => (sorted.length ? sorted[Math.floor(share * (sorted.length - 1))] : 0);
const ascending = (values) => values.sort((a, b) => a - b);

let names = 0;

async function block(inFlight, us, operations) {
  const acquire = [], both = [], began = now(), cpuBegan = cpu();
  let failed = 0;
  await Promise.all(Array.from({ length: inFlight }, async () => {
    for (let n = 0; now() - began < us * 1000 && (!operations || n < operations); n++) {
      const started = now();
      try {
        const lock = await redlock.acquire([`peer/${process.pid}/${names++}`], TTL_MS);
        const acquired = now();
        await lock.release();
        acquire.push(acquired - started);
        both.push(now() - started);
      } catch {
        failed++;
      }
    }
  }));
  ascending(acquire);
  ascending(both);
  const three = (values) => [0.5, 0.99, 1].map((share) => at(values, share)).join(',');
  return `block operations=${both.length} failed=${failed} wall=${now() - began} cpu=${cpu() - cpuBegan}` +
    ` acquire=${three(acquire)} both=${three(both)} first=0 again=0`;
}

// The numbers are in the order of enum contest_figure (bench/contest.h).
async function contend(contenders, us, holdUs) {
  const waits = [], counts = Array(contenders).fill(0), began = now(), cpuBegan = cpu();
  let holder = null, last = null, handOffs = 0, overlaps = 0, lost = 0, failed = 0;
  await Promise.all(counts.map(async (_, self) => {
    let started = now();
    while (now() - began < us * 1000) {
      try {
        const lock = await redlock.acquire(['peer/contended'], TTL_MS);
        waits.push(now() - started);
        counts[self]++;
        overlaps += holder !== null;
        handOffs += last !== self;
        holder = last = self;
        await sleep(holdUs / 1000);
        holder = null;
        await lock.release().catch(() => failed++);
        started = now();
      } catch {
        lost++;
      }
    }
    if (!counts[self])
      waits.push(us * 1000);
  }));
  ascending(waits);
  const acquired = counts.reduce((a, b) => a + b, 0), squares = counts.reduce((a, b) => a + b * b, 0);
  const ms = (share) => at(waits, share) / 1e6;
  return [acquired * 1e9 / (now() - began), 100 * handOffs / acquired, 0, ms(0.5), ms(0.99), ms(0.99), ms(1), 0,
    acquired * acquired / (contenders * squares), lost / acquired, (cpu() - cpuBegan) / 1e6 / acquired, failed,
    overlaps].join(' ');
}

async function main() {
  await Promise.all(clients.map((client) => client.ping()));
  console.log('ready');
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, ...numbers] = line.split(' ');
    console.log(await { block, contend }[command](...numbers.map(Number)));
  }
  process.exit(0);
}

main();
