// A program that uses node-redlock, the lock most used from JavaScript, told by lines on standard input what to do.
//
//   node neighbour.js 4|5 HOST:PORT,HOST:PORT,...       the major version of redlock; NODE_PATH says where the packages are
//
//   acquire KEY TTL              -> ok VALUE
//   extend TTL                   -> ok
//   release                      -> ok
//   compete KEY WITNESS TIMES    -> ok OVERLAPS, when it has held the lock so often
//
// What cannot be done is answered by "refused WORDS".
'use strict';

const fs = require('fs');
const readline = require('readline');
const Redis = require('ioredis');

const [version, nodes] = process.argv.slice(2);
const library = require(`redlock-${version}`);
const Redlock = library.default || library;
const clients = nodes.split(',').map((node) => {
  const [host, port] = node.split(':');
  return new Redis(Number(port), host);
});

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
// It never tries twice by itself: between its tries version 5 keeps the keys that it has set. They refuse its next try, and when they expire
// one after the other it can refuse itself for ever.
const locker = new Redlock(clients, { retryCount: 0 });
locker.on(version === '4' ? 'clientError' : 'error', () => {});

let held = null;

async function acquire(key, ttl) {
  const lock = await locker.acquire([key], Number(ttl));
  // The two versions differ only in how a lock is let go.
  lock.end = () => (version === '4' ? lock.unlock() : lock.release());
  return lock;
}

const commands = {
  async acquire(key, ttl) {
    held = await acquire(key, ttl);
    return held.value;
  },
  async extend(ttl) {
    const end = held.end;
    held = await held.extend(Number(ttl));
    held.end = held.end || (() => held.release());
    return end ? '' : 'nothing was held';
  },
  async release() {
    await held.end();
    return '';
  },
  async compete(key, witness, times) {
    let overlaps = 0;
    for (let held_times = 0; held_times < Number(times); await pause(Math.random() * 40)) {
      const lock = await acquire(key, 60000).catch(() => null);
      if (!lock) continue;
      held_times++;
      try {
        fs.mkdirSync(witness);
        await pause(20);
        fs.rmdirSync(witness);
      } catch (error) {
        overlaps++;
      }
      await lock.end();
    }
    return String(overlaps);
  },
};

async function main() {
  // Version 5 falls back from EVALSHA behind what it has sent meanwhile: a release can overtake the acquire that it is to undo.
  const scripts = Object.values(locker.scripts);
  await Promise.all(clients.flatMap((client) => scripts.map((script) => client.script('LOAD', script.value))));
  console.log('ready');
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [name, ...words] = line.split(' ');
    try {
      console.log(`ok ${await commands[name](...words)}`);
    } catch (error) {
      console.log(`refused ${error.name}: ${error.message}`.replace(/\n/g, ' '));
    }
  }
  process.exit(0);
}

main();
