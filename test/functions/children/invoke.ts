/** Imports a built function by its file, invokes it once with the event given as JSON, and says what came of it. */

const [file = '', event = ''] = process.argv.slice(2);
const { handler } = (await import(file)) as { handler: (event: unknown, context: unknown) => Promise<unknown> };
const context = { awsRequestId: 'request', getRemainingTimeInMillis: () => 60_000 };
const told = await handler(JSON.parse(event), context).then(
  (outcome) => ({ outcome }),
  (error: Error) => ({ error: error.name, message: error.message }),
);
process.stdout.write(`${JSON.stringify({ told })}\n`);
