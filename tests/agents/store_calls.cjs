// Calls of the TypeScript store, one after another: a JSON list of [method, ...arguments] in, the JSON list of results out.
// Arguments: the folder of the package, that of the store; then the command of the server.
const [folder, home, command, ...args] = process.argv.slice(2);
const { TimeleapClient } = require(folder);
const { ClaudeSessionStore } = require(`${folder}/dist/claude/index.js`);

async function main() {
  let asked = "";
  for await (const piece of process.stdin.setEncoding("utf8")) asked += piece;
  const client = await TimeleapClient.start({ command, args, env: { ...process.env, TIMELEAP_HOME: home } });
  const store = new ClaudeSessionStore(client);
  const results = [];
  for (const [method, ...given] of JSON.parse(asked)) results.push((await store[method](...given)) ?? null);
  await client.shutdown();
  process.stdout.write(JSON.stringify(results));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
