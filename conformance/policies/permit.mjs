// permit.mjs: a decision point that permits everything, and checks the form of each question. A GET is answered with how
// often it was asked about results; a question of another form is answered with 400, by which Dragoman refuses the request.
import http from 'node:http';

let results = 0;
const server = http.createServer(async (request, response) => {
  if (request.method === 'GET') return response.end(`${results}\n`);
  let body = '';
  for await (const piece of request.setEncoding('utf8')) body += piece;
  const { input } = JSON.parse(body);
  const about = input.tool ?? input.prompt ?? input.resource ?? input.task;
  const known = input.version === 1 && ['request', 'result'].includes(input.phase) && typeof about === 'string' && input.server && input.correlationId;
  if (!known || Buffer.byteLength(body) > 64 << 10) {
    console.error(`a strange question: ${body}`);
    return response.writeHead(400).end();
  }
  if (input.phase === 'result') results++;
  response.setHeader('Content-Type', 'application/json').end(JSON.stringify({ result: { allow: true } }));
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
