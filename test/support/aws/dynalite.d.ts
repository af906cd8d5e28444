declare module 'dynalite' {
  import type { Server } from 'node:http';
  /** A DynamoDB in memory, behind HTTP. */
  export default function dynalite(options?: {
    readonly createTableMs?: number;
    readonly deleteTableMs?: number;
    readonly updateTableMs?: number;
  }): Server;
}
