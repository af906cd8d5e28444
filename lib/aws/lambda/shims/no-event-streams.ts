/**
 * In the deployed bundle this module replaces the SDK's event streams (`lib/cdk/code/bundling.ts`), under the names
 * that its clients import. No operation used here streams events, and the original pulls in many other modules.
 */

export const eventStreamSerdeProvider = (): undefined => undefined;

export const resolveEventStreamSerdeConfig = <Config>(config: Config): Config => config;

export class EventStreamSerde {
  constructor() {
    throw new Error('Event streams are left out of the functions: see `alias` in lib/cdk/code/bundling.ts');
  }
}
