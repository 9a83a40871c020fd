// An echo server in node, and a client that verifies what comes back.
//
//     echo_programs.js server PORT
//     echo_programs.js client HOST PORT CONNECTIONS QUESTIONS PAUSE
//
// PAUSE is how long a connection rests behind its tenth question, in ms.
'use strict';
const crypto = require('crypto');
const net = require('net');

const AT_ONCE = 20;
const SIZES = [1, 10, 700, 4096, 33000, 150000];

function serve(port) {
  const server = net.createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', (error) => console.log(`server: ${error}`));
    socket.pipe(socket);
  });
  server.listen(port, '0.0.0.0');
}

// What comes, for those who wait for so many bytes or for the end.
class Receiver {
  constructor(socket) {
    this.held = [];
    this.bytes = 0;
    this.ended = false;
    this.wake = () => {};
    socket.on('data', (piece) => { this.held.push(piece); this.bytes += piece.length; this.wake(); });
    socket.on('end', () => { this.ended = true; this.wake(); });
    socket.on('error', (error) => { this.error = error; this.wake(); });
  }

  async take(bytes) {
    while (this.bytes < bytes && !this.ended && !this.error) await new Promise((wake) => { this.wake = wake; });
    if (this.error) throw this.error;
    const all = Buffer.concat(this.held);
    this.held = [all.subarray(bytes)];
    this.bytes = this.held[0].length;
    return all.subarray(0, bytes);
  }
}

// Question and answer, then everything at once, half-closed.
async function talk(host, port, questions, pause) {
  const socket = net.connect({ host, port, allowHalfOpen: true });
  const receiver = new Receiver(socket);
  const random = () => crypto.randomBytes(SIZES[crypto.randomInt(SIZES.length)]);
  for (let i = 0; i < questions; ++i) {
    if (i === 10) await new Promise((wake) => { setTimeout(wake, pause); });
    const question = random();
    socket.write(question);
    if (!question.equals(await receiver.take(question.length))) throw new Error('an answer is not the question');
  }
  const pieces = Array.from({ length: 10 }, random);
  for (const piece of pieces) socket.write(piece);
  socket.end();
  const rest = await receiver.take(Infinity);
  if (!rest.equals(Buffer.concat(pieces))) throw new Error(`the rest, ${rest.length} bytes, is not what was sent`);
}

async function call(host, port, connections, questions, pause) {
  let left = connections;
  const caller = async () => { while (left-- > 0) await talk(host, port, questions, pause); };
  await Promise.all(Array.from({ length: AT_ONCE }, caller));
  console.log(`${connections} connections`);
}

const [role, ...rest] = process.argv.slice(2);
if (role === 'server') {
  serve(Number(rest[0]));
} else {
  call(rest[0], ...rest.slice(1).map(Number)).catch((error) => { console.log(error); process.exit(1); });
}
