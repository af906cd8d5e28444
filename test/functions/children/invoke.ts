/** Imports a bundle, invokes its handler once with the event given as JSON, and prints the result as the last line. */

const [file = '', event = ''] = process.argv.slice(2);
const { handler } = (await import(file)) as { handler: (event: unknown, context: unknown) => Promise<unknown> };
const context = { awsRequestId: 'request', getRemainingTimeInMillis: () => 60_000 };
const result = await handler(JSON.parse(event), context).then(
  (outcome) => ({ outcome }),
  (error: Error) => ({ error: error.name, message: error.message }),
);
process.stdout.write(`${JSON.stringify({ result })}\n`);
