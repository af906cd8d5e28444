/** Runs `act` for each item in order, `concurrency` items at a time. */
export async function forEachConcurrently<T>(
  concurrency: number,
  items: Iterable<T>,
  act: (item: T) => Promise<unknown>,
): Promise<void> {
  const remaining = [...items].values();
  await Promise.all(
    Array.from({ length: concurrency }, async () => {
      for (const item of remaining) await act(item);
    }),
  );
}
