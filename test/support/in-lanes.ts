/** Does `act` for each item, `lanes` at a time, in order. */
export async function inLanes<T>(
  concurrency: number,
  items: Iterable<T>,
  act: (item: T) => Promise<unknown>,
): Promise<void> {
  const rest = [...items].values();
  await Promise.all(
    Array.from({ length: concurrency }, async () => {
      for (const item of rest) await act(item);
    }),
  );
}
